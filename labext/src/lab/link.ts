/** The comm to one kernel: opened on ready, kernel change, restart and reload; tells its listeners the kernel's state. */

import type { ISessionContext } from "@jupyterlab/apputils";
import type { Kernel, KernelMessage } from "@jupyterlab/services";
import { type ISignal, Signal } from "@lumino/signaling";

import { type CellMarks, type MarksMessage, merged } from "./marks.js";

const TARGET = "cachelab";

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
  mode: string;
  recordings: RecordingRow[];
  live: LiveRow[];
}

const NONE: KernelState = { link: "none", mode: "off", recordings: [], live: [] };

export interface Message {
  data: Record<string, unknown>;
  buffers: DataView[];
}

export class Link {
  state: KernelState = NONE;
  /** Marks of code lines by cell id, and the number of cells that have too many. */
  marks: ReadonlyMap<string, CellMarks> = new Map();
  leftOut = 0;
  /** Calls that the running cell recorded so far, `null` where nothing is known to be recorded. */
  progress: number | null = null;
  private readonly context: ISessionContext;
  private comm: Kernel.IComm | null = null;
  private kernel: Kernel.IKernelConnection | null = null;
  private readonly stateChanged = new Signal<this, KernelState>(this);
  private readonly received = new Signal<this, Message>(this);
  private readonly markedAgain = new Signal<this, void>(this);
  private wanted = "";
  private greeted: Kernel.IComm | null = null;
  private sequence = 0;

  constructor(context: ISessionContext) {
    this.context = context;
    context.kernelChanged.connect(this.connect, this);
    context.statusChanged.connect(this.onStatus, this);
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

  /** A number for a request that the kernel answers: all explorers and panels of a notebook share one comm. */
  nextId(): number {
    return ++this.sequence;
  }

  /** Every other message of the kernel. */
  get message(): ISignal<this, Message> {
    return this.received;
  }

  send(data: Record<string, unknown>): void {
    if (!this.comm || this.comm.isDisposed) throw new Error("The kernel has no CacheLab.");
    this.comm.send(data as never);
  }

  setMode(mode: string): void {
    this.wanted = mode;
    this.send({ type: "mode", mode });
  }

  /** Load CacheLab in the kernel, as `%load_ext cachelab` in a cell would. */
  async load(): Promise<void> {
    const kernel = this.context.session?.kernel;
    if (!kernel) return;
    await kernel.requestExecute({ code: "%load_ext cachelab", silent: true, store_history: false }).done;
    await this.connect();
  }

  dispose(): void {
    this.context.kernelChanged.disconnect(this.connect, this);
    this.context.statusChanged.disconnect(this.onStatus, this);
    this.comm?.dispose();
    Signal.clearData(this);
  }

  private onStatus(_: ISessionContext, status: Kernel.Status): void {
    if (status === "restarting" || status === "autorestarting" || status === "dead" || status === "terminating") {
      this.comm = null;
      this.set({ ...NONE, link: status === "restarting" || status === "autorestarting" ? "absent" : "none" });
    }
  }

  private async connect(): Promise<void> {
    const kernel = this.context.session?.kernel ?? null;
    if (!kernel) return this.set(NONE);
    if (kernel !== this.kernel) {
      this.kernel = kernel;
      // A kernel that loads CacheLab later opens the comm from its side.
      kernel.registerCommTarget(TARGET, (comm, open) => {
        this.take(comm);
        this.onData(open.content.data as Record<string, unknown>, []);
      });
    }
    if (this.comm && !this.comm.isDisposed && this.state.link === "ready") return;
    try {
      const info = await kernel.requestCommInfo({ target_name: TARGET });
      const known = info.content.status === "ok" && Object.keys(info.content.comms).length > 0;
      if (!known) {
        if (this.state.link !== "ready") this.set({ ...NONE, link: "absent" });
        return;
      }
      const comm = kernel.createComm(TARGET);
      this.take(comm);
      await comm.open().done;
    } catch {
      this.set({ ...NONE, link: "absent" });
    }
  }

  private take(comm: Kernel.IComm): void {
    this.comm = comm;
    comm.onMsg = (message: KernelMessage.ICommMsgMsg): void => {
      const buffers = (message.buffers ?? []).map((one) => (one instanceof DataView ? one : new DataView(one as ArrayBuffer)));
      this.onData(message.content.data as Record<string, unknown>, buffers);
    };
    comm.onClose = (): void => {
      if (this.comm === comm) this.set({ ...NONE, link: "absent" });
    };
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
    if (this.greeted === this.comm) return;
    this.greeted = this.comm;
    this.send({ type: "marks" });
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
    if (state.link !== "ready" && this.marks.size) this.mark({ all: true, cells: [], gone: [], left_out: 0 });
    this.stateChanged.emit(state);
  }
}
