"""The style of the persistent record: tokens, one rule a status, scoped under one class so that nothing leaks.

Every value falls back from a JupyterLab variable where one exists. Dark follows the front end's own mark first and
the system's preference only where no front end has spoken.
"""

from __future__ import annotations

ROOT = "cachelab-record"

_LIGHT = (
    "--cl-page:var(--jp-layout-color0,#fff);--cl-surface:var(--jp-layout-color1,#fff);"
    "--cl-line:var(--jp-border-color2,#dfe3e8);--cl-line2:var(--jp-border-color1,#b9c0ca);"
    "--cl-ink:var(--jp-ui-font-color1,#1a222d);--cl-ink2:#56606d;--cl-edge:#8a94a2;"
    "--cl-C:#4f5a69;--cl-R:#c94f00;--cl-S:#0064b0;--cl-F:#b9609a;--cl-O:#007a5a;--cl-P:#7b8490;--cl-X:#5e4a00;"
    "--cl-Rink:#843300;--cl-onS:#fff;--cl-tint:12%;--cl-hatch:38%;color-scheme:light"
)
_DARK = (
    "--cl-page:var(--jp-layout-color0,#111317);--cl-surface:var(--jp-layout-color1,#17191e);"
    "--cl-line:var(--jp-border-color2,#30353e);--cl-line2:var(--jp-border-color1,#4d5561);"
    "--cl-ink:var(--jp-ui-font-color1,#e4e8ee);--cl-ink2:#a3adba;--cl-edge:#77818f;"
    "--cl-C:#8e99a8;--cl-R:#f0843a;--cl-S:#56b4e9;--cl-F:#f2a9d2;--cl-O:#35b98f;--cl-P:#7d8794;--cl-X:#f3e45a;"
    "--cl-Rink:#ffc9a3;--cl-onS:#06121c;--cl-tint:17%;--cl-hatch:46%;color-scheme:dark"
)
_FIXED = (
    "--cl-raise:color-mix(in srgb,var(--cl-ink) 5%,var(--cl-surface));"
    '--cl-ui:var(--jp-ui-font-family,-apple-system,BlinkMacSystemFont,"Segoe UI",Roboto,"Helvetica Neue",'
    '"Liberation Sans","DejaVu Sans Condensed",Arial,sans-serif);'
    '--cl-code:var(--jp-code-font-family,Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace);'
    "--cl-fs0:11px;--cl-fs1:12px;--cl-fs2:13px;--cl-fs3:17px;--cl-row:19px"
)

_RULES = """
&{background:var(--cl-page);color:var(--cl-ink);font:var(--cl-fs2)/1.4 var(--cl-ui);font-variant-numeric:tabular-nums;max-width:940px;padding:8px 2px 10px;text-align:left;container-type:inline-size}
& *{box-sizing:border-box}
& p,& h2,& h3,& ol{margin:0;padding:0;font-weight:400;color:inherit;letter-spacing:0}
& code,& .m{font-family:var(--cl-code);font-size:.93em}
& code{background:none;color:inherit;padding:0;border:0}
& b{font-weight:600}
& .q{color:var(--cl-ink2)}
& .s0{font-size:var(--cl-fs0)}
& .head{display:flex;flex-wrap:wrap;gap:0 10px;color:var(--cl-ink2);font-size:var(--cl-fs0)}
& .head b{color:var(--cl-ink2)}
& h2.hl{font:600 var(--cl-fs3)/24px var(--cl-ui);margin-top:2px}
& h3{font:600 var(--cl-fs1)/17px var(--cl-ui);margin:0 0 4px;display:flex;gap:8px;align-items:baseline;flex-wrap:wrap}
& h3 span{font-weight:400;color:var(--cl-ink2);font-size:var(--cl-fs0)}
& .say{overflow-wrap:anywhere;max-width:100ch}
& .figs{display:flex;flex-wrap:wrap;gap:0 26px;margin:8px 0 6px;font-size:var(--cl-fs1);align-items:center}
& .figs>*{white-space:nowrap}
& .figs .end{margin-left:auto;font-size:var(--cl-fs0);white-space:normal}
& .split{display:flex;gap:10px;align-items:center;font-size:var(--cl-fs0);margin:0 0 12px;white-space:nowrap}
& .split>div{display:flex;align-items:center;gap:5px}
& .split>.bar{flex:1;gap:1px}
& .two{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:0 30px;margin-top:12px;align-items:start}
& .two.wide{grid-template-columns:minmax(0,1fr)}
& .wide .side{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:0 30px;align-items:start}
& .side>div{min-width:0}
& .blk{margin:0 0 12px;min-width:0}
& .scroll{overflow-x:auto}
& table{border-collapse:collapse;border-spacing:0;font-size:var(--cl-fs1);width:100%;margin:0;border:0;table-layout:auto;color:inherit}
& tbody tr,& tbody tr:nth-child(odd),& tbody tr:hover,& thead{background:none;border:0}
& th{font-weight:400;color:var(--cl-ink2);text-align:left;font-size:var(--cl-fs0);vertical-align:middle}
& td,& th{padding:0 0 0 10px;height:var(--cl-row);white-space:nowrap;border:0;vertical-align:middle;text-align:left;line-height:17px}
& td:first-child,& th:first-child{padding-left:0}
& td.r,& th.r{text-align:right}
& td>.st{vertical-align:middle}
& td.q{white-space:normal;line-height:15px}
& td.why{white-space:normal;padding:0 0 3px 10px;color:var(--cl-ink2);overflow-wrap:anywhere}
& .st{display:inline-block;width:20px;height:15px;border:1px solid var(--k);border-radius:2px;text-align:center;font:600 9.5px/13px var(--cl-ui);vertical-align:1px;color:var(--k);background:none;flex:none;overflow:hidden}
& .C{--k:var(--cl-C)}& .R{--k:var(--cl-R)}& .S{--k:var(--cl-S)}& .F{--k:var(--cl-F)}& .M,& .K,& .U{--k:var(--cl-O)}& .P,& .T,& .N{--k:var(--cl-P)}& .X{--k:var(--cl-X)}
& .st.C{background:color-mix(in srgb,var(--k) var(--cl-tint),transparent);border-color:color-mix(in srgb,var(--k) 72%,var(--cl-page));font-weight:400}
& .st.R{color:var(--cl-Rink);border-width:1.5px;line-height:12px;background:repeating-linear-gradient(135deg,color-mix(in srgb,var(--k) var(--cl-hatch),transparent) 0 1.5px,color-mix(in srgb,var(--k) var(--cl-tint),transparent) 1.5px 4.5px)}
& .st.S{background:var(--k);color:var(--cl-onS);border-radius:8px}
& .st.F{border-left-width:5px;background:color-mix(in srgb,var(--k) var(--cl-tint),transparent)}
& .st.M{border:3px double var(--k);line-height:9px}
& .st.K{clip-path:polygon(0 0,68% 0,100% 45%,100% 100%,0 100%);background:color-mix(in srgb,var(--k) 24%,transparent)}
& .st.U{border-width:1px 4px;background:repeating-linear-gradient(90deg,color-mix(in srgb,var(--k) 26%,transparent) 0 1px,transparent 1px 3px)}
& .st.P{border-style:dotted;font-weight:400}
& .st.T{border-style:dashed;background:linear-gradient(to top right,transparent 43%,var(--k) 43% 57%,transparent 57%) left/6px 100% no-repeat;padding-left:4px}
& .st.N{border-right:0;border-top-right-radius:0;border-bottom-right-radius:0}
& .st.X{border:1.5px dashed var(--k);line-height:12px}
& .st.P,& .st.T,& .st.N{color:var(--cl-ink2)}
& .bar{display:flex;height:10px;gap:1px}
& .bar i{display:block;height:100%;min-width:1px}
& .bar i.C{background:color-mix(in srgb,var(--cl-C) 40%,transparent)}
& .bar i.R{background:repeating-linear-gradient(135deg,color-mix(in srgb,var(--cl-R) 62%,transparent) 0 1.5px,color-mix(in srgb,var(--cl-R) 22%,transparent) 1.5px 4.5px);outline:1px solid var(--cl-R);outline-offset:-1px}
& .mx .c{width:28px;min-width:16px;padding:0 1px;text-align:center}
& .mx.dense .c{width:18px}
& .mx th.c{text-align:center;overflow:visible}
& .mx .c .st{display:block;width:100%;height:16px;line-height:14px}
& .mx .c .st.R,& .mx .c .st.X{line-height:13px}& .mx .c .st.M{line-height:10px}
& .mx .mix{display:flex;gap:1px}& .mx .c .mix .st{width:auto;min-width:5px;flex-basis:0}
& .mx .v{padding:0;text-align:left}
& .ver{display:block;height:12px;margin:0 1px 0 2px;background:color-mix(in srgb,var(--cl-ink) 15%,transparent);font:9.5px/12px var(--cl-code);text-align:left;padding:0 0 0 3px;color:var(--cl-ink);overflow:hidden;border-left:2px solid var(--cl-ink2);border-radius:2px 0 0 2px;width:0;min-width:calc(100% - 3px)}
& .ver.many{background:repeating-linear-gradient(90deg,color-mix(in srgb,var(--cl-ink) 20%,transparent) 0 5px,transparent 5px 6px)}
& .ver.on{border-left-color:transparent}
& .mx tr.sc td{border-top:1px solid var(--cl-line)}
& .mx tr.sc td:first-child{font-weight:600}
& .mx td:first-child{padding-right:8px;max-width:230px;overflow:hidden;text-overflow:ellipsis}
& ol.fd{list-style:none;font-size:var(--cl-fs1);line-height:17px}
& ol.fd li{display:grid;grid-template-columns:20px 1fr;gap:2px 4px;margin:0 0 5px;overflow-wrap:anywhere}
& details{font-size:var(--cl-fs1);margin:4px 0}
& summary{cursor:pointer;color:var(--cl-ink2);font-size:var(--cl-fs0)}
& :focus-visible{outline:2px solid var(--jp-brand-color1,#1976d2);outline-offset:1px}
& .key{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:var(--cl-fs0);color:var(--cl-ink2);margin-top:8px}
@container (max-width:760px){& .two,& .wide .side{grid-template-columns:minmax(0,1fr)}}
"""

_SVG_RULES = """
& svg{display:block;color-scheme:inherit}
& svg text{font:11.5px var(--cl-code);fill:var(--cl-ink);stroke:none}
& svg .sub{font:10.5px var(--cl-ui);fill:var(--cl-ink2)}
& svg .lt{font:600 10px var(--cl-ui);fill:var(--k)}
& svg .bt{font:600 11px var(--cl-ui)}
& svg .box{fill:color-mix(in srgb,var(--cl-raise) 60%,transparent);stroke:var(--cl-line2)}
& svg .e{fill:none;stroke:var(--cl-edge);stroke-width:1.2}
& svg .e.S{stroke:var(--cl-S);stroke-width:2.4}
& svg .e.P{stroke:var(--cl-P);stroke-dasharray:1.5 3}
& svg .ah{fill:var(--cl-edge);stroke:none}& svg .ah.S{fill:var(--cl-S)}& svg .ah.P{fill:var(--cl-P)}
& svg .hb{fill:color-mix(in srgb,var(--cl-R) var(--cl-tint),var(--cl-page))}& svg .hs{fill:color-mix(in srgb,var(--cl-R) var(--cl-hatch),var(--cl-page))}
& svg .us{fill:color-mix(in srgb,var(--cl-O) 26%,var(--cl-page))}& svg .ub{fill:var(--cl-page)}
& svg .n .b{fill:color-mix(in srgb,var(--k) var(--cl-tint),var(--cl-page));stroke:color-mix(in srgb,var(--k) 72%,var(--cl-page));stroke-width:1}
& svg .n.R .b{stroke:var(--k);stroke-width:1.6}& svg .n.R .lt{fill:var(--cl-Rink)}
& svg .n.S .b{fill:var(--cl-S)}& svg .n.S text{fill:var(--cl-onS)}& svg .halo{fill:none;stroke:var(--cl-S);stroke-width:3;opacity:.34}
& svg .n.P .b,& svg .n.T .b,& svg .n.N .b,& svg .n.X .b,& svg .n.M .b{fill:var(--cl-page);stroke:var(--k)}
& svg .n.P .b{stroke-dasharray:1.5 2.5}& svg .n.T .b{stroke-dasharray:5 3}& svg .n.X .b{stroke-dasharray:4 2;stroke-width:1.5}
& svg .n.K .b,& svg .n.U .b,& svg .n.F .b{stroke:var(--k)}
& svg .n.P text,& svg .n.T text,& svg .n.N text{fill:var(--cl-ink2)}
& svg .in{fill:none;stroke:var(--k);stroke-width:1}& svg .thick{fill:var(--k);stroke:none}
& svg .plate{fill:var(--cl-page);opacity:.8}
& svg .shadow{fill:none;stroke:var(--cl-line2)}& svg .scope{fill:var(--cl-surface);stroke:var(--cl-line2)}
& svg .mC{fill:color-mix(in srgb,var(--cl-C) 50%,transparent)}& svg .mR{fill:var(--cl-R)}& svg .mS{fill:var(--cl-S)}& svg .mF{fill:var(--cl-F)}
& svg .mM,& svg .mK,& svg .mU{fill:var(--cl-O)}& svg .mP,& svg .mT,& svg .mN{fill:none;stroke:var(--cl-P);stroke-width:.6}& svg .mX{fill:none;stroke:var(--cl-X);stroke-width:.8}
& svg .chip rect{fill:var(--cl-page);stroke:var(--cl-line2)}& svg .chip text{font-size:10px}
& svg .chip.new rect{fill:color-mix(in srgb,var(--cl-ink) 15%,var(--cl-page));stroke:var(--cl-ink2)}
& svg .chip.F rect{stroke:var(--cl-F)}
"""


def _scoped(rules: str, root: str) -> str:
    return rules.replace("\n", "").replace("&", root)


def stylesheet() -> str:
    """Return the style sheet of the record, all of it under :data:`ROOT`."""
    root = f".{ROOT}"
    quiet = ":not([data-jp-theme-light]):not(.vscode-light):not(.vscode-high-contrast-light)"
    marks = ('[data-jp-theme-light="false"]', ".vscode-dark", ".vscode-high-contrast:not(.vscode-high-contrast-light)",
             'html[theme="dark"]')  # fmt: skip
    dark = ",".join(f"{mark} {root}" for mark in marks)
    return (
        f"{root}{{{_LIGHT};{_FIXED}}}"
        f"@media (prefers-color-scheme:dark){{body{quiet} {root}{{{_DARK}}}}}"
        f"{dark}{{{_DARK}}}"
        f"{_scoped(_RULES, root)}{_scoped(_SVG_RULES, root)}"
    )


def svg_stylesheet(root: str) -> str:
    """Return the style of a picture that stands alone, under the class ``root``."""
    return (
        f".{root}{{{_LIGHT};{_FIXED}}}@media (prefers-color-scheme:dark){{.{root}{{{_DARK}}}}}"
        f"{_scoped(_SVG_RULES.replace('& svg', '&'), '.' + root)}"
    )
