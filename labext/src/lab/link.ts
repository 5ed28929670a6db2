/** What a notebook or console knows of its kernel: follows it on ready, kernel change, restart and reload. */

import type { ISessionContext } from "@jupyterlab/apputils";
import type { Kernel } from "@jupyterlab/services";
import { type ISignal, Signal } from "@lumino/signaling";

import { type CellMarks, type MarksMessage, merged } from "./marks.js";
import { type Message, Wire } from "./wire.js";

export type { Message };

/** One call, or a run of equal calls: `omitted` stands for calls that are left out. Times are those of one call. */
export interface CallRow {
  first: number;
  label: string;
  calls: number;
  omitted: boolean;
  fetches: string;
  seconds: number;
  redundant: number;
  wall: number;
  estimated: boolean;
  failed: boolean;
}

/** What a live mode did: values served and not, bytes held, op time saved. */
export interface Served {
  mode: string;
  hits: number;
  misses: number;
  bytes: number;
  saved: number;
}

export interface RecordingRow {
  name: string;
  /** Id of the cell that ran it, and the number of that execution. */
  cell: string;
  number: number;
  /** The cell ran again since. */
  rerun: boolean;
  calls: number;
  share: number;
  redundant: number;
  seconds: number;
  wall: number;
  findings: string[];
  more_findings: number;
  log: CallRow[];
  live: (Served & { skipped: number }) | null;
}

/** What tells recordings apart: a name may be given again. */
export const keyOf = (row: RecordingRow): string => `${row.name} ${row.number}`;

/** An open live session of the kernel. */
export interface LiveRow extends Served {
  number: number;
  name: string;
  budget: number | null;
  evictions: number;
  entries: number;
  note: string;
}

export interface KernelState {
  /** `none`: no kernel; `absent`: the kernel has no CacheLab; `ready`: it answers. */
  link: "none" | "absent" | "ready";
  /** More about `none` (`busy`: it has not answered yet) and `absent` (`language`: no Python; `missing`: not installed). */
  why?: "busy" | "language" | "missing";
  mode: string;
  recordings: RecordingRow[];
  live: LiveRow[];
}

const NONE: KernelState = { link: "none", mode: "off", recordings: [], live: [] };

export class Link {
  state: KernelState = NONE;
  /** Marks of code lines by cell id, and the number of cells that have too many. */
  marks: ReadonlyMap<string, CellMarks> = new Map();
  leftOut = 0;
  /** Calls that the running cell recorded so far, `null` where nothing is known to be recorded. */
  progress: number | null = null;
  private readonly context: ISessionContext;
  private wire: Wire | null = null;
  private kernel: Kernel.IKernelConnection | null = null;
  private restarting = false;
  private readonly stateChanged = new Signal<this, KernelState>(this);
  private readonly received = new Signal<this, Message>(this);
  private readonly markedAgain = new Signal<this, void>(this);
  private readonly loadedHere = new Signal<this, void>(this);
  private wanted = "";
  private greeted = false;
  private fresh = false;
  private static sequence = 0;

  constructor(context: ISessionContext) {
    this.context = context;
    context.kernelChanged.connect(this.onKernel, this);
    context.statusChanged.connect(this.onStatus, this);
    context.connectionStatusChanged.connect(this.onConnection, this);
    void context.ready.then(() => this.connect());
  }

  /** Emitted whenever the mode, the recordings or the link itself changed. */
  get changed(): ISignal<this, KernelState> {
    return this.stateChanged;
  }

  /** Emitted whenever the marks changed. */
  get marked(): ISignal<this, void> {
    return this.markedAgain;
  }

  /** Emitted when this page has loaded CacheLab in the kernel. */
  get loaded(): ISignal<this, void> {
    return this.loadedHere;
  }

  /** A number for a request that the kernel answers: all explorers and panels of a notebook share one comm. */
  nextId(): number {
    return ++Link.sequence;
  }

  /** Every other message of the kernel. */
  get message(): ISignal<this, Message> {
    return this.received;
  }

  send(data: Record<string, unknown>): void {
    if (!this.wire) throw new Error("No kernel is connected.");
    this.wire.send(data);
  }

  setMode(mode: string): void {
    this.wanted = mode;
    this.send({ type: "mode", mode });
  }

  /** Load CacheLab in the kernel, as `%load_ext cachelab` in a cell would. */
  async load(): Promise<void> {
    const kernel = this.context.session?.kernel;
    if (!kernel) return;
    const reply = await kernel.requestExecute({ code: "%load_ext cachelab", silent: true, store_history: false }).done.catch(() => null);
    // A kernel that restarted meanwhile is another one.
    if (!reply) return;
    if (reply.content.status !== "ok") return this.set({ ...NONE, link: "absent", why: "missing" });
    this.fresh = true;
    await this.connect(true);
    this.greet();
  }

  dispose(): void {
    this.context.kernelChanged.disconnect(this.onKernel, this);
    this.context.statusChanged.disconnect(this.onStatus, this);
    this.context.connectionStatusChanged.disconnect(this.onConnection, this);
    this.unhook();
    Signal.clearData(this);
  }

  private onKernel(): void {
    void this.connect();
  }

  private onStatus(_: ISessionContext, status: Kernel.Status): void {
    const again = status === "restarting" || status === "autorestarting";
    if (again || status === "dead" || status === "terminating") {
      this.wire?.reset();
      this.set(again ? { ...NONE, why: "busy" } : NONE);
      this.restarting = again;
      this.fresh = false;
    } else if (status === "idle" && this.restarting) {
      this.restarting = false;
      void this.connect();
    }
  }

  /** Messages that were sent while the network was away are lost. */
  private onConnection(_: ISessionContext, status: Kernel.ConnectionStatus): void {
    if (status === "connected" && this.wire?.open) this.send({ type: "state" });
  }

  private hook(kernel: Kernel.IKernelConnection): void {
    this.kernel = kernel;
    this.wire = Wire.join(kernel);
    this.wire.received.connect(this.onReceived, this);
    this.wire.closed.connect(this.onClosed, this);
  }

  private unhook(): void {
    this.wire?.received.disconnect(this.onReceived, this);
    this.wire?.closed.disconnect(this.onClosed, this);
    if (this.kernel) this.wire?.leave(this.kernel);
    this.wire = this.kernel = null;
  }

  private onReceived(_: Wire, { data, buffers }: Message): void {
    this.onData(data, buffers);
  }

  /** CacheLab was unloaded; or the kernel has too many comms, and this page opens another one. */
  private async onClosed(): Promise<void> {
    const { wire } = this;
    const found = await wire?.find().catch(() => false);
    if (!found && wire === this.wire) this.set({ ...NONE, link: "absent" });
  }

  private async connect(sure = false): Promise<void> {
    const kernel = this.context.session?.kernel ?? null;
    if (kernel !== this.kernel) {
      this.unhook();
      if (kernel) this.hook(kernel);
      this.set(NONE);
    }
    const { wire } = this;
    if (!kernel || !wire) return this.set(NONE);
    if (wire.open) return this.send({ type: "state" });
    if (this.state.link === "none") this.set({ ...NONE, why: "busy" });
    try {
      const found = await wire.find(sure);
      if (wire !== this.wire || this.state.link === "ready") return;
      if (found) this.send({ type: "state" });
      else this.set({ ...NONE, link: "absent", ...((await python(kernel)) ? {} : { why: "language" }) });
    } catch {
      if (wire === this.wire) this.set({ ...NONE, link: "absent" });
    }
  }

  private onData(data: Record<string, unknown>, buffers: DataView[]): void {
    if (data.type === "running") {
      this.progress = Number(data.calls);
      return void this.stateChanged.emit(this.state);
    }
    if (data.type === "marks") return this.mark(data as unknown as MarksMessage);
    if (data.type !== "state") return void this.received.emit({ data, buffers });
    this.wanted = "";
    this.set({ link: "ready", mode: String(data.mode), recordings: data.recordings as RecordingRow[], live: data.live as LiveRow[] });
    this.greet();
    if (this.greeted) return;
    this.greeted = true;
    this.send({ type: "marks" });
  }

  /** The kernel's first message comes before or after the end of the request that loaded CacheLab. */
  private greet(): void {
    if (!this.fresh || this.state.link !== "ready") return;
    this.fresh = false;
    this.loadedHere.emit();
  }

  /** Mode asked for and not yet confirmed: a busy kernel answers when its cell ends. */
  get pending(): string {
    return this.wanted;
  }

  private mark(message: MarksMessage): void {
    this.marks = merged(this.marks, message);
    this.leftOut = message.left_out;
    this.markedAgain.emit();
  }

  private set(state: KernelState): void {
    this.state = state;
    this.progress = null;
    this.greeted &&= state.link === "ready";
    if (state.link !== "ready" && this.marks.size) this.mark({ all: true, cells: [], gone: [], left_out: 0 });
    this.stateChanged.emit(state);
  }
}

const python = async (kernel: Kernel.IKernelConnection): Promise<boolean> => (await kernel.info).language_info.name === "python";
