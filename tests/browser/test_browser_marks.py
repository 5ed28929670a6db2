"""Marks on code lines in a real JupyterLab: on the right lines whatever happens to the cells, stale when due."""

from __future__ import annotations

import pytest
from lab_page import command, wait_equal, wait_true

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

LOAD = "%load_ext cachelab\nfrom browser_marks import mark"
FIRST = """\
# what the model is made of
a = 1  # op enc/A 30 r
b = 2

c = 3  # op enc/B 5 r
d = 4  # op head/C 12 c
_ = mark()"""
SECOND = "e = 5  # op top/D 8 c\nf = 6  # op top/E 2 r\n_ = mark()"
A, B, C = "a = 1  # op enc/A 30 r", "c = 3  # op enc/B 5 r", "d = 4  # op head/C 12 c"
D, E, CALL = "e = 5  # op top/D 8 c", "f = 6  # op top/E 2 r", "_ = mark()"
# Three calls; recomputed in two of them. The line of the calls shows the op time of all ops.
OF_FIRST = [(A, "r", "90 ms"), (B, "r", "15 ms"), (C, "c", "36 ms"), (CALL, "r", "141 ms")]
OF_SECOND = [(D, "c", "24 ms"), (E, "r", "6.0 ms"), (CALL, "r", "30 ms")]

_SEEN = """(place) => {
  const cell = [...document.querySelectorAll('.jp-Notebook .jp-Cell')]
    .find((one) => one.offsetParent && one.querySelector('.cm-content')?.textContent.includes(place));
  if (!cell) return null;
  const lines = [...cell.querySelectorAll('.cm-line')];
  return [...cell.querySelectorAll('.cachelab-Mark')].map((mark) => {
    const box = mark.getBoundingClientRect();
    const y = box.top + box.height / 2;
    const line = lines.find((one) => one.getBoundingClientRect().top <= y && y < one.getBoundingClientRect().bottom);
    const old = mark.classList.contains('cachelab-Old');
    return [y, [line?.textContent ?? '', mark.dataset.letter, mark.firstChild.textContent, old]];
  }).sort((a, b) => a[0] - b[0]).map(([, seen]) => seen);
}"""


class Marks:
    """What can be seen in the gutters of the notebook in front."""

    def __init__(self, book):
        self.book, self.page = book, book.page

    def of(self, text):
        """Return (line text, letter, time, old) of the marks of the cell with ``text``, as they stand on the screen."""
        found = self.page.evaluate(_SEEN, text)
        return None if found is None else [tuple(one) for one in found]

    def wait(self, text, expected, *, old=False):
        wanted = [(*one, old) for one in expected]
        wait_equal(self.page, lambda: self.of(text), wanted)

    def do(self, name, **arguments):
        command(self.book, name, **arguments)

    def js(self, code):
        return self.book.js(code)

    def activate(self, index):
        self.js(f"book.activeCellIndex = {index}; book.deselectAll(); return book.scrollToItem({index}, 'smart');")

    def source(self, index, text):
        self.js(f"book.widgets[{index}].model.sharedModel.setSource({text!r});")

    def type_at(self, index, line, text):
        """Type as a person does: click into the line, go to its beginning, type."""
        self.page.locator(".jp-Notebook .jp-Cell >> visible=true").nth(index).locator(".cm-line").nth(line).click()
        self.page.keyboard.press("Home")
        self.page.keyboard.type(text)

    def badge(self, index):
        return self.page.locator(".jp-Notebook .jp-Cell >> visible=true").nth(index).locator(".cachelab-Badge")


@pytest.fixture
def marked(open_notebook, lab_with_extension):
    """A notebook of two recorded cells (indices 1 and 2) after LOAD."""

    def make(name, *more, **options):
        book = open_notebook(lab_with_extension, name, LOAD, FIRST, SECOND, *more, **options)
        for index in range(3):
            book.run(index)
        return Marks(book)

    return make


def test_marks_stand_on_the_lines_that_made_the_ops_with_their_times(marked):
    marks = marked("lines.ipynb")
    marks.wait(A, OF_FIRST)
    marks.wait(D, OF_SECOND)
    assert marks.of("%load_ext") == []
    marks.badge(1).get_by_text("50 % of op time recomputed, 70 ms of 141 ms").wait_for()
    marks.badge(2).get_by_text("13 % of op time recomputed, 4.0 ms of 30 ms").wait_for()
    assert marks.badge(0).count() == 0


def test_ops_of_an_earlier_cell_are_marked_there_and_the_call_where_it_was_made(open_notebook, lab_with_extension):
    build = "\n\na = 1  # op enc/A 30 r\nb = 2"
    book = open_notebook(lab_with_extension, "earlier.ipynb", LOAD, build, "x = 1\n_ = mark(2)")
    for index in range(3):
        book.run(index)
    marks = Marks(book)
    marks.wait(A, [(A, "r", "90 ms")])
    marks.wait("mark(2)", [("_ = mark(2)", "r", "90 ms")])
    marks.badge(1).get_by_text("1 of 1 op made here was recomputed").wait_for()
    # Run again, the cell has new ops: what the mark tells is of the old ones.
    book.run(1)
    marks.wait(A, [(A, "r", "90 ms")], old=True)
    marks.badge(1).get_by_text("ran again since").wait_for()
    marks.page.locator(".cachelab-Mark.cachelab-Old").first.hover()
    marks.page.locator(".cachelab-Hover").get_by_text("The cell ran again since, outside of this recording.").wait_for()


def test_editing_makes_marks_stale_and_undo_makes_them_fresh(marked, artifacts):
    marks = marked("stale.ipynb")
    marks.wait(A, OF_FIRST)
    marks.type_at(1, 2, "z")
    marks.wait(A, OF_FIRST, old=True)
    marks.wait(D, OF_SECOND)
    marks.badge(1).get_by_text("edited since: 50 %").wait_for()
    old = marks.page.locator(".cachelab-Old .cachelab-Bar").first
    assert old.evaluate("(bar) => getComputedStyle(bar).outlineStyle") == "dashed"
    marks.page.locator(".cachelab-Mark.cachelab-Old").first.hover()
    marks.page.locator(".cachelab-Hover").get_by_text("The cell was edited since").wait_for()
    marks.page.screenshot(path=artifacts / "marks-stale.png")
    marks.page.mouse.move(5, 5)
    marks.page.locator(".cachelab-Hover").wait_for(state="detached")
    marks.page.keyboard.press("Control+z")
    marks.wait(A, OF_FIRST)
    marks.book.run(1)
    marks.wait(A, OF_FIRST)


def test_marks_go_with_their_lines_and_leave_with_them(marked):
    marks = marked("follow.ipynb")
    marks.wait(A, OF_FIRST)
    marks.type_at(1, 1, "# two new lines\n# above\n")
    marks.wait(A, OF_FIRST, old=True)
    # The marked line itself changes: its mark stays with it.
    marks.type_at(1, 3, "q = ")
    marks.wait(A, [(f"q = {A}", "r", "90 ms"), *OF_FIRST[1:]], old=True)
    marks.page.locator(".jp-Cell >> visible=true").nth(1).locator(".cm-line").nth(3).click()
    marks.page.keyboard.press("Control+Shift+k")
    marks.wait(B, OF_FIRST[1:], old=True)
    # Replaced as a whole, as a formatter does, lines are found by their text.
    marks.source(1, f"# formatted\n{B}\n    {C}\n\n{CALL}")
    marks.wait(B, [(B, "r", "15 ms"), (f"    {C}", "c", "36 ms"), (CALL, "r", "141 ms")], old=True)


def test_moved_cells_keep_their_marks_and_copies_have_none(marked):
    marks = marked("moved.ipynb")
    marks.wait(A, OF_FIRST)
    marks.activate(1)
    marks.do("notebook:move-cell-down")
    assert marks.js("return book.widgets[2].model.sharedModel.getSource()") == FIRST
    marks.wait(A, OF_FIRST)
    marks.wait(D, OF_SECOND)
    marks.badge(2).get_by_text("50 %").wait_for()
    marks.activate(2)
    marks.do("notebook:copy-cell")
    marks.do("notebook:paste-cell-below")
    marks.page.wait_for_timeout(500)
    assert marks.js("return book.widgets.length") == 4
    assert marks.page.locator(".jp-Cell >> visible=true").nth(3).locator(".cachelab-Mark").count() == 0
    assert marks.page.locator(".jp-Cell >> visible=true").nth(2).locator(".cachelab-Mark").count() == 4
    # Cut and pasted, it is the same cell to its reader, whatever its id.
    marks.activate(3)
    marks.do("notebook:delete-cell")
    marks.activate(2)
    marks.do("notebook:cut-cell")
    marks.activate(0)
    marks.do("notebook:paste-cell-below")
    marks.wait(A, OF_FIRST)
    assert marks.js("return book.widgets[1].model.sharedModel.getSource()") == FIRST


def test_split_cells_share_the_marks_and_deleted_ones_take_them_along(marked):
    marks = marked("split.ipynb")
    marks.wait(A, OF_FIRST)
    marks.activate(1)
    marks.js("book.widgets[1].editor.setCursorPosition({ line: 3, column: 0 }); book.mode = 'edit';")
    marks.do("notebook:split-cell-at-cursor")
    assert marks.js("return book.widgets.length") == 4
    marks.wait(A, OF_FIRST[:1], old=True)
    marks.wait(B, OF_FIRST[1:], old=True)
    marks.wait(D, OF_SECOND)
    marks.activate(1)
    marks.do("notebook:delete-cell")
    marks.page.wait_for_timeout(300)
    assert marks.of(A) is None
    marks.wait(B, OF_FIRST[1:], old=True)
    # Jupyter takes both back in one step where they came in quick succession.
    marks.do("notebook:undo-cell-action")
    if marks.js("return book.widgets.length") == 4:
        marks.wait(A, OF_FIRST[:1], old=True)
        marks.do("notebook:undo-cell-action")
    marks.wait(A, OF_FIRST)


@pytest.mark.parametrize("windowing", ["full", "contentVisibility", "none"])
def test_windowed_notebooks_show_the_marks_of_cells_that_scroll_in(open_notebook, lab_with_extension, windowing):
    middle = [f"v{k} = {k}\n" * 12 for k in range(40)]
    book = open_notebook(lab_with_extension, f"window-{windowing}.ipynb", LOAD, FIRST, *middle, SECOND, height=700)
    marks = Marks(book)
    marks.js(
        f"book.notebookConfig = {{ ...book.notebookConfig, windowingMode: '{windowing}' }};"
        " return new Promise((done) => setTimeout(done, 300));"
    )
    for index in (0, 1, 42):
        book.run(index)
    marks.activate(42)
    marks.wait(D, OF_SECOND)
    if windowing == "full":
        assert marks.of(A) is None, "the first cell should be out of the window"
    marks.activate(1)
    marks.wait(A, OF_FIRST)
    # Changed while nobody sees it, a cell is stale when it comes back.
    marks.source(42, f"# new\n{SECOND}")
    marks.page.wait_for_timeout(300)
    marks.activate(42)
    marks.wait(D, OF_SECOND, old=True)


def test_hover_tells_the_cause_and_click_selects_the_ops_in_the_explorer(marked):
    marks = marked("click.ipynb")
    marks.wait(A, OF_FIRST)
    mark = marks.page.locator(".jp-Cell >> visible=true").nth(1).locator(".cachelab-Mark").nth(1)
    mark.hover()
    card = marks.page.locator(".cachelab-Hover")
    card.wait_for()
    text = card.inner_text()
    assert "Line 5: 3 × 5.0 ms of op time, 2 of 3 recomputed" in text
    assert "enc/B recomputed in call 1: ran on the inputs of call 0; a value lives for one call only." in text
    marks.page.keyboard.press("Escape")
    card.wait_for(state="detached")
    mark.click()
    explorer = marks.page.locator(".cachelab-Tab .cachelab-explorer .xp")
    explorer.wait_for()
    selected = explorer.locator('svg.graph [data-id="enc/B"]')
    selected.wait_for()
    assert selected.get_attribute("aria-pressed") == "true"
    assert "dim" not in selected.get_attribute("class").split()
    assert "dim" in explorer.locator('svg.graph [data-id="enc/A"]').get_attribute("class").split()
    assert "enc/B" in explorer.locator(".ins .hd").inner_text()
    assert "Call 1 of 0–2" in explorer.locator(".say").first.inner_text()
    # The same tab shows what is clicked next, also of another recording.
    marks.page.locator(".jp-Cell >> visible=true").nth(2).locator(".cachelab-Mark").nth(0).click()
    explorer.locator('svg.graph [data-id="top/D"][aria-pressed="true"]').wait_for()
    assert marks.page.locator(".cachelab-Tab").count() == 1
    assert marks.book.errors == []


def test_the_list_of_lines_says_by_keyboard_all_that_the_gutter_says(marked, violations):
    marks = marked("keyboard.ipynb")
    marks.wait(A, OF_FIRST)
    marks.activate(1)
    marks.js("book.widgets[1].editor.setCursorPosition({ line: 4, column: 0 });")
    marks.do("cachelab:line-details")
    focused = marks.page.locator(".cachelab-LineRow:focus")
    focused.wait_for()
    assert focused.inner_text().split()[:3] == ["5", "R", "15"]
    assert focused.get_attribute("aria-expanded") == "true"
    rows = marks.page.locator(".cachelab-LineRow")
    assert [row.split("\n")[0] for row in rows.all_inner_texts()] == ["2", "5", "6", "7"]
    assert "enc/B recomputed in call 1" in marks.page.locator(".cachelab-LineSaid").inner_text()
    marks.page.keyboard.press("Tab")
    marks.page.keyboard.press("Enter")
    explorer = marks.page.locator(".cachelab-Tab .cachelab-explorer .xp")
    explorer.locator('svg.graph [data-id="enc/B"][aria-pressed="true"]').wait_for()
    assert violations(marks.page, ".cachelab-Panel") == []


def test_marks_come_back_after_a_reload_and_go_with_the_kernel(marked):
    marks = marked("reload.ipynb")
    marks.wait(A, OF_FIRST)
    marks.book.reload()
    marks.wait(A, OF_FIRST)
    marks.wait(D, OF_SECOND)
    marks.badge(1).get_by_text("50 %").wait_for()
    # A text that changed before the reload is still told from the one that ran.
    marks.source(1, f"# new\n{FIRST}")
    marks.wait(A, OF_FIRST, old=True)
    marks.book.reload()
    marks.wait(A, OF_FIRST, old=True)
    marks.book.restart()
    wait_true(marks.page, "() => !document.querySelector('.cachelab-Mark')")
    assert marks.badge(1).count() == 0


def test_cells_that_ran_before_cachelab_was_loaded_are_marked_too(open_notebook, lab_with_extension):
    early = "a = 1  # op enc/A 30 r\nb = 2"
    book = open_notebook(lab_with_extension, "early.ipynb", early, f"{LOAD}\n_ = mark(1)")
    book.run(0)
    book.run(1)
    marks = Marks(book)
    marks.wait(A, [(A, "r", "90 ms")])
    marks.wait("mark(1)", [("_ = mark(1)", "r", "90 ms")])


def test_two_notebooks_at_once_have_their_own_marks(marked, lab_with_extension):
    marks = marked("one-of-two.ipynb")
    marks.wait(A, OF_FIRST)
    lab_with_extension.write("two-of-two.ipynb", f"{LOAD}\n{E}\n_ = mark()", FIRST)
    marks.book.beside("two-of-two.ipynb").run(0)
    marks.wait(E, [(E, "r", "6.0 ms"), (CALL, "r", "6.0 ms")])
    # The same code as in the other notebook, but it never ran here.
    assert marks.of(A) == []
    marks.book.activate()
    marks.wait(A, OF_FIRST)
    marks.wait(D, OF_SECOND)
    assert marks.book.errors == []


def test_notebook_7_has_the_marks_the_list_and_the_explorer(open_notebook, notebook7_with_extension, artifacts):
    book = open_notebook(notebook7_with_extension, "seven.ipynb", LOAD, FIRST)
    book.run(0)
    book.run(1)
    marks = Marks(book)
    marks.wait(A, OF_FIRST)
    marks.badge(1).get_by_text("50 % of op time recomputed").wait_for()
    marks.page.locator(".cachelab-Mark").nth(1).click()
    explorer = marks.page.locator(".cachelab-Tab .cachelab-explorer .xp")
    explorer.locator('svg.graph [data-id="enc/B"][aria-pressed="true"]').wait_for()
    assert marks.page.locator(".cachelab-Tab").bounding_box()["height"] > 300
    marks.do("cachelab:line-details", line=5)
    focused = marks.page.locator(".cachelab-LineRow:focus")
    focused.wait_for()
    assert focused.inner_text().split()[:3] == ["5", "R", "15"]
    marks.page.screenshot(path=artifacts / "marks-notebook7.png")
