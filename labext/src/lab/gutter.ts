/** Marks in the gutter of code cells, as a CodeMirror extension of every editor; they follow the text as it changes. */

import type { CodeEditor } from "@jupyterlab/codeeditor";
import { EditorExtensionRegistry, type IEditorExtensionFactory } from "@jupyterlab/codemirror";
import { Compartment, type Extension, Prec, RangeSet, StateEffect, StateField, type Text, type Transaction } from "@codemirror/state";
import { type BlockInfo, EditorView, gutter, GutterMarker, ViewPlugin } from "@codemirror/view";
import { type ISignal, Signal } from "@lumino/signaling";

import { time } from "../shared/strings.js";
import { type CellMarks, follow, type Mark, width } from "./marks.js";
import { bar, swatch } from "./swatches.js";

export interface Given {
  cell: CellMarks;
  /** Op time of the longest bar. */
  most: number;
}

/** A mark where it stands now. */
export interface Standing {
  mark: Mark;
  /** Line of the current text, from 1. */
  line: number;
  /** The text of the cell is not the one that ran. */
  edited: boolean;
}

export interface Pointed extends Standing {
  cell: CellMarks;
}

/** What the pointer does with marks. */
export interface Pointer {
  over(pointed: Pointed, place: HTMLElement, model: CodeEditor.IModel): void;
  out(): void;
  click(pointed: Pointed, model: CodeEditor.IModel): void;
}

interface Shown {
  given: Given | null;
  edited: boolean;
  /** Position of the first character of the line's code: what is written before it pushes it on. */
  places: readonly { mark: Mark; pos: number }[];
  set: RangeSet<GutterMarker>;
}

const give = StateEffect.define<Given | null>();
const drawn = new Compartment();
const NOTHING: Shown = { given: null, edited: false, places: [], set: RangeSet.empty };

class LineMarker extends GutterMarker {
  private readonly mark: Mark;
  private readonly old: boolean;
  private readonly wide: number;

  constructor(mark: Mark, old: boolean, wide: number) {
    super();
    this.mark = mark;
    this.old = old;
    this.wide = wide;
  }

  eq(other: LineMarker): boolean {
    return other.mark === this.mark && other.old === this.old && other.wide === this.wide;
  }

  toDOM(): Node {
    const { mark, old, wide } = this;
    const node = document.createElement("div");
    node.className = old ? "cachelab-Mark cachelab-Old" : "cachelab-Mark";
    node.dataset.letter = mark.letter;
    const text = document.createElement("span");
    text.textContent = mark.seconds > 0 ? time(mark.seconds) : "";
    node.append(text, mark.seconds > 0 ? bar(mark.redundant, mark.seconds, wide) : swatch(mark.letter));
    return node;
  }
}

/** Place marks by the text of their lines; `kept` are places that are known already. */
function placed(given: Given, doc: Text, kept: Shown["places"] = []): Shown {
  const source = given.cell.source;
  const edited = doc.length !== source.length || doc.toString() !== source;
  const places = new Map<number, { mark: Mark; pos: number }>();
  const known = new Set<Mark>();
  const add = (mark: Mark, pos: number): void => {
    const { from } = doc.lineAt(pos);
    if (places.has(from) || known.has(mark)) return;
    known.add(mark);
    places.set(from, { mark, pos });
  };
  if (edited) for (const { mark, pos } of kept) add(mark, pos);
  // Mostly every mark went along with its line, and there is nothing to look for.
  const lost = given.cell.marks.filter((mark) => !known.has(mark));
  const at = edited && lost.length ? follow(source.split("\n"), doc.toString().split("\n")) : null;
  for (const mark of lost) {
    const number = at ? at.get(mark.line) : mark.line;
    if (number === undefined || number > doc.lines) continue;
    const line = doc.line(number);
    add(mark, line.from + line.text.length - line.text.trimStart().length);
  }
  const ranges = [...places].map(([from, { mark }]) => new LineMarker(mark, edited || mark.rerun, width(mark.seconds, given.most)).range(from));
  return { given, edited, places: [...places.values()], set: RangeSet.of(ranges, true) };
}

/** The same marks after a change of the text: each goes with its line, and leaves with it. */
function moved(before: Shown, given: Given, change: Transaction): Shown {
  const { newDoc, changes } = change;
  const kept = [];
  for (const { mark, pos } of before.places) {
    const old = change.startState.doc.lineAt(pos);
    if (changes.mapPos(old.from, 1) < changes.mapPos(old.to, -1)) kept.push({ mark, pos: changes.mapPos(pos, 1) });
  }
  return placed(given, newDoc, kept);
}

const field = StateField.define<Shown>({
  create: () => NOTHING,
  update: (before, transaction) => {
    for (const effect of transaction.effects) if (effect.is(give)) return effect.value ? placed(effect.value, transaction.newDoc) : NOTHING;
    return before.given && transaction.docChanged ? moved(before, before.given, transaction) : before;
  },
});

interface Entry {
  given: Given | null;
  views: Set<EditorView>;
}

/** The marks of all open editors, by the model of the cell: an editor that is made later shows them as well. */
export class Gutters {
  /** For the registry of editor extensions: gives every editor a gutter that is empty until its cell has marks. */
  readonly factory: IEditorExtensionFactory;
  private readonly entries = new WeakMap<CodeEditor.IModel, Entry>();
  private readonly pointer: Pointer;
  private readonly moved = new Signal<this, void>(this);

  constructor(pointer: Pointer) {
    this.pointer = pointer;
    this.factory = {
      name: "cachelab-marks",
      factory: ({ model }) => EditorExtensionRegistry.createImmutableExtension(this.extension(model)),
    };
  }

  /** Emitted when marks came, moved or left. */
  get changed(): ISignal<this, void> {
    return this.moved;
  }

  /** Show these marks in the editors of a cell. */
  set(model: CodeEditor.IModel, given: Given | null): void {
    const entry = this.entry(model);
    if (entry.given === given || (entry.given && given && entry.given.cell === given.cell && entry.given.most === given.most)) return;
    entry.given = given;
    for (const view of entry.views) this.show(view, given);
    this.moved.emit();
  }

  /** What a cell was given to show. */
  given(model: CodeEditor.IModel): CellMarks | null {
    return this.entry(model).given?.cell ?? null;
  }

  /** What a cell shows now, from top to bottom; also for a cell whose editor was not made yet. */
  standing(model: CodeEditor.IModel): Standing[] {
    const { given, views } = this.entry(model);
    const [view] = views;
    if (!given) return [];
    if (view) {
      const { places, edited } = view.state.field(field);
      return places
        .map(({ mark, pos }) => ({ mark, line: view.state.doc.lineAt(pos).number, edited }))
        .sort((one, other) => one.line - other.line);
    }
    const text = model.sharedModel.getSource();
    const at = follow(given.cell.source.split("\n"), text.split("\n"));
    const edited = text !== given.cell.source;
    return given.cell.marks.flatMap((mark) => (at.has(mark.line) ? [{ mark, line: at.get(mark.line) as number, edited }] : []));
  }

  private entry(model: CodeEditor.IModel): Entry {
    let entry = this.entries.get(model);
    if (!entry) this.entries.set(model, (entry = { given: null, views: new Set() }));
    return entry;
  }

  private show(view: EditorView, given: Given | null): void {
    const shown = drawn.get(view.state) === this.gutter;
    view.dispatch({ effects: [give.of(given), ...(shown === Boolean(given) ? [] : [drawn.reconfigure(given ? this.gutter : [])])] });
  }

  private readonly models = new WeakMap<EditorView, CodeEditor.IModel>();

  private extension(model: CodeEditor.IModel): Extension {
    return [
      field,
      drawn.of([]),
      ViewPlugin.define((view) => {
        const entry = this.entry(model);
        entry.views.add(view);
        this.models.set(view, model);
        // A view can't change while it is being made.
        queueMicrotask(() => entry.given && entry.views.has(view) && this.show(view, entry.given));
        return {
          update: (update) => {
            if (!update.docChanged || !entry.given) return;
            const [before, after] = [update.startState.field(field), update.state.field(field)];
            const same = before.edited === after.edited && before.places.length === after.places.length;
            if (!same || update.startState.doc.lines !== update.state.doc.lines) this.moved.emit();
          },
          destroy: () => void entry.views.delete(view),
        };
      }),
    ];
  }

  private readonly gutter: Extension = Prec.high(
    gutter({
      class: "cachelab-Gutter",
      markers: (view) => view.state.field(field).set,
      domEventHandlers: {
        mousedown: (_view, _line, event) => {
          event.preventDefault();
          return true;
        },
        click: (view, line) => this.at(view, line, (pointed, model) => this.pointer.click(pointed, model)),
        mouseover: (view, line, event) => {
          const place = (event.target as Element).closest<HTMLElement>(".cachelab-Mark");
          if (!place) return false;
          return this.at(view, line, (pointed, model) => this.pointer.over(pointed, place, model));
        },
        mouseout: () => {
          this.pointer.out();
          return false;
        },
      },
    }),
  );

  private at(view: EditorView, { from }: BlockInfo, act: (pointed: Pointed, model: CodeEditor.IModel) => void): boolean {
    const { places, given, edited } = view.state.field(field);
    const place = places.find((one) => view.state.doc.lineAt(one.pos).from === from);
    const model = this.models.get(view);
    if (!place || !given || !model) return false;
    act({ mark: place.mark, line: view.state.doc.lineAt(place.pos).number, edited, cell: given.cell }, model);
    return true;
  }
}
