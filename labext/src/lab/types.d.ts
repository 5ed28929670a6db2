declare module "*/static/widget.js" {
  interface Host {
    send(message: Record<string, unknown>): void;
  }
  interface Mounted {
    explorer: { receive(message: Record<string, unknown>): void; goTo(target: { lines?: readonly number[]; call?: number }): void };
    stop(): void;
  }
  export function mountText(place: HTMLElement, text: string): Mounted;
  export function mountBytes(place: HTMLElement, data: DataView, host: Host | null): Promise<Mounted>;
  export function deliver(mounted: Mounted | null, message: Record<string, unknown>, buffers: readonly DataView[]): void;
  export function setTranslator(translator: (message: string) => string): void;
}
