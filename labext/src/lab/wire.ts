/**
 * The comm to one kernel. Of all connections that a page has to a kernel (notebooks, consoles), one gets its comm
 * messages: whoever looks at that kernel shares this wire.
 */

import type { Kernel, KernelMessage } from "@jupyterlab/services";
import { type ISignal, Signal } from "@lumino/signaling";

const TARGET = "cachelab";

export interface Message {
  data: Record<string, unknown>;
  buffers: DataView[];
}

const wires = new Map<string, Wire>();

export class Wire {
  private readonly id: string;
  private readonly connections: Kernel.IKernelConnection[] = [];
  private comm: Kernel.IComm | null = null;
  /** A comm of this page's making; one that the kernel opened stays when the page goes, so that the next page finds it. */
  private own = false;
  private owned = false;
  private search: Promise<boolean> | null = null;
  private readonly messages = new Signal<this, Message>(this);
  private readonly end = new Signal<this, void>(this);

  private constructor(id: string) {
    this.id = id;
  }

  /** Join the wire of a kernel. */
  static join(kernel: Kernel.IKernelConnection): Wire {
    let wire = wires.get(kernel.id);
    if (!wire) wires.set(kernel.id, (wire = new Wire(kernel.id)));
    wire.connections.push(kernel);
    // A kernel that loads CacheLab later opens the comm from its side.
    const made = wire;
    kernel.registerCommTarget(TARGET, (comm, open) => {
      made.take(comm, false);
      made.messages.emit({ data: open.content.data as Record<string, unknown>, buffers: [] });
    });
    return wire;
  }

  leave(kernel: Kernel.IKernelConnection): void {
    const at = this.connections.indexOf(kernel);
    if (at >= 0) this.connections.splice(at, 1);
    if (!this.connections.length) {
      this.close();
      wires.delete(this.id);
    } else if (kernel.handleComms) {
      // The comms went with this connection; another one of the page takes them over.
      this.close();
      void this.find().catch(() => undefined);
    }
  }

  /** Every message of the kernel. */
  get received(): ISignal<this, Message> {
    return this.messages;
  }

  /** Emitted when the kernel closed the comm. */
  get closed(): ISignal<this, void> {
    return this.end;
  }

  get open(): boolean {
    return this.comm !== null && !this.comm.isDisposed;
  }

  send(data: Record<string, unknown>): void {
    if (!this.comm || this.comm.isDisposed) throw new Error("The kernel has no CacheLab.");
    this.comm.send(data as never);
  }

  /** Open the comm if the kernel has CacheLab (`sure`: it was just loaded), and tell whether it is open. */
  find(sure = false): Promise<boolean> {
    if (this.open) return Promise.resolve(true);
    this.search ??= this.look(sure).finally(() => (this.search = null));
    return this.search;
  }

  /** The kernel restarts: whatever was open is gone. */
  reset(): void {
    this.comm = null;
  }

  /** Close the comm where this page made it. */
  close(): void {
    if (this.open && this.own) this.comm?.close();
    this.comm = null;
  }

  private async look(sure: boolean): Promise<boolean> {
    const kernel = this.owner();
    if (!kernel) return false;
    const info = await kernel.requestCommInfo({ target_name: TARGET });
    if (this.open) return true;
    if (!sure && !(info.content.status === "ok" && Object.keys(info.content.comms).length)) return false;
    const comm = kernel.createComm(TARGET);
    this.take(comm, true);
    await comm.open().done;
    return true;
  }

  private owner(): Kernel.IKernelConnection | null {
    const alive = this.connections.filter((one) => !one.isDisposed);
    let found = alive.find((one) => one.handleComms);
    if (!found && this.owned && alive.length) {
      // The connection that had the comms was closed with its notebook; nobody else takes them over.
      [found] = alive;
      (found as { handleComms: boolean }).handleComms = true;
    }
    this.owned ||= found !== undefined;
    return found ?? null;
  }

  private take(comm: Kernel.IComm, own: boolean): void {
    this.comm = comm;
    this.own = own;
    this.owned = true;
    comm.onMsg = (message: KernelMessage.ICommMsgMsg): void => {
      const buffers = (message.buffers ?? []).map((one) => (one instanceof DataView ? one : new DataView(one as ArrayBuffer)));
      this.messages.emit({ data: message.content.data as Record<string, unknown>, buffers });
    };
    comm.onClose = (): void => {
      if (this.comm !== comm) return;
      this.comm = null;
      this.end.emit();
    };
  }
}
