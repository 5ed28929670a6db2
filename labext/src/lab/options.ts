/** What the settings say, with the defaults of the schema where there are none yet. */

import type { ISettingRegistry } from "@jupyterlab/settingregistry";
import { type ISignal, Signal } from "@lumino/signaling";

export interface Values {
  loadAutomatically: boolean;
  modeAfterLoading: string;
  badges: boolean;
  marks: boolean;
  statusBar: boolean;
  followRecordings: boolean;
}

export class Options {
  /** As in `schema/plugin.json`. */
  values: Values = { loadAutomatically: false, modeAfterLoading: "off", badges: true, marks: true, statusBar: true, followRecordings: true };
  private readonly valuesChanged = new Signal<this, Values>(this);

  /** Follow the settings of the plugin `id`. */
  async read(registry: ISettingRegistry, id: string): Promise<void> {
    const settings = await registry.load(id);
    const take = (): void => {
      this.values = { ...this.values, ...(settings.composite as unknown as Values) };
      this.valuesChanged.emit(this.values);
    };
    settings.changed.connect(take);
    take();
  }

  get changed(): ISignal<this, Values> {
    return this.valuesChanged;
  }
}
