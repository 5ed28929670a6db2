"""Loading costs little, and unloading leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys

from cachelab.session_state import recordings


def state(ip):
    """All that an extension can change in a shell, by identity."""
    return {
        "cleanup": list(ip.input_transformers_cleanup),
        "post": list(ip.input_transformers_post),
        "line transforms": list(ip.input_transformer_manager.line_transforms),
        "token transforms": list(ip.input_transformer_manager.token_transformers),
        "ast": list(ip.ast_transformers),
        "events": {event: list(callbacks) for event, callbacks in ip.events.callbacks.items()},
        "magics": {kind: dict(names) for kind, names in ip.magics_manager.magics.items()},
        "registry": dict(ip.magics_manager.registry),
        "configurables": list(ip.configurables),
        "matchers": list(ip.Completer.custom_matchers),
        "dispatchers": {name: (dict(one.strs), dict(one.regexs)) for name, one in ip.strdispatchers.items()},
        "hooks": dict(ip.hooks),
        "displayhook": (ip.displayhook, sys.displayhook),
        "excepthook": (sys.excepthook, ip.CustomTB, ip.custom_exceptions),
        "names": set(ip.user_ns),
        "hidden names": set(ip.user_ns_hidden),
        "formatters": {kind: dict(one.type_printers) for kind, one in ip.display_formatter.formatters.items()},
        "mimebundle": dict(ip.display_formatter.mimebundle_formatter.type_printers),
    }


def test_unload_leaves_the_shell_as_it_was(bare):
    bare.cell("x = 1")
    before = state(bare.ip)
    bare.load()
    bare.cell("%cachelab on")
    bare.cell("%cachelab off")
    assert state(bare.ip) != before
    bare.ip.extension_manager.unload_extension("cachelab")
    after = state(bare.ip)
    for of_cells in (f"_i{number}" for number in range(9)):
        for names in (after["names"], before["names"], after["hidden names"], before["hidden names"]):
            names.discard(of_cells)
    assert after == before


def test_loading_twice_adds_once(shell):
    import cachelab

    before = state(shell.ip)
    cachelab.load_ipython_extension(shell.ip)
    assert state(shell.ip) == before
    assert shell.cell("%load_ext cachelab").out.startswith("The cachelab extension is already loaded")
    assert len(shell.cell("%%cachelab\nrun()").outputs) == 1


def test_unloading_twice_is_fine(shell):
    import cachelab

    cachelab.unload_ipython_extension(shell.ip)
    before = state(shell.ip)
    cachelab.unload_ipython_extension(shell.ip)
    assert state(shell.ip) == before


def test_reload_works_as_a_fresh_load(shell):
    shell.cell("%cachelab on")
    assert shell.cell("%reload_ext cachelab").success
    assert shell.cell("run()").outputs == []
    assert len(shell.cell("%%cachelab\nrun()").outputs) == 1


def test_unloading_inside_a_recorded_cell_takes_the_hooks_off(shell, engine):
    result = shell.cell("%%cachelab\nrun()\n%unload_ext cachelab\nstill = run()")
    assert result.success
    assert engine.OPEN == []
    assert len(recordings) == 0
    shell.cell("%load_ext cachelab")


def test_a_magic_of_the_same_name_comes_back(bare):
    bare.ip.register_magic_function(lambda line: "mine", "line", "cachelab")
    bare.load()
    bare.ip.extension_manager.unload_extension("cachelab")
    assert bare.cell("%cachelab").result == "mine"


PROBE = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = set(sys.modules)
shell.run_line_magic("load_ext", "cachelab")
shell.run_cell("%%cachelab?")
shell.run_cell("%cachelab list")
heavy = {"tensorflow", "matplotlib", "ipywidgets", "anywidget", "rich", "numpy", "xxhash", "tqdm"}
heavy |= { "graphviz", "networkx"}
print("heavy:", sorted(heavy & (set(sys.modules) - before)), "new:", len(set(sys.modules) - before))
"""


def test_loading_imports_nothing_heavy():
    """What a load costs is what it imports; figures stand in benchmarks, not in a test."""
    ran = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert "heavy: []" in ran.stdout
    assert int(ran.stdout.rpartition("new: ")[2]) < 60
