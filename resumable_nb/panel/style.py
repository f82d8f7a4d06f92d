"""How it looks: JupyterLab's theme variables alone, so that it is light or dark as the notebook is."""

from __future__ import annotations

from typing import Final

_RULES: Final = """
.rnb-panel, .rnb-static {
  --rnb-fg: var(--jp-ui-font-color1, #1f1f1f); --rnb-dim: var(--jp-ui-font-color1, #444);
  --rnb-bg: var(--jp-layout-color1, #fff); --rnb-soft: var(--jp-layout-color2, #eee);
  --rnb-line: var(--jp-border-color2, #ccc); --rnb-bar: var(--jp-brand-color1, #1976d2);
  --rnb-mono: var(--jp-code-font-family, monospace);
  color: var(--rnb-fg); background: var(--rnb-bg); font-family: var(--jp-ui-font-family, sans-serif);
  font-size: var(--jp-ui-font-size1, 13px); line-height: 1.45; border: 1px solid var(--rnb-line);
  border-radius: 4px; padding: 8px 12px; box-sizing: border-box; width: 100%;
  container-type: inline-size; overflow: visible;
}
.rnb-panel .widget-box { overflow: visible; }
.rnb-panel > .widget-html, .rnb-panel .rnb-fill { width: auto; margin: 0; height: auto; }
.rnb-panel .widget-html-content, .rnb-panel .widget-html { line-height: 1.45; height: auto; color: var(--rnb-fg);
  font-size: inherit; min-width: 0; }
.rnb-panel .rnb-hidden, .rnb-panel .rnb-style { display: none !important; }
.rnb-panel button.jupyter-button { color: var(--rnb-fg); background: var(--rnb-soft); width: auto; height: auto;
  min-height: 28px; border: 1px solid var(--rnb-line); border-radius: 3px; padding: 2px 10px; margin: 0;
  line-height: 1.3; box-shadow: none; }
.rnb-panel button.jupyter-button:focus-visible, .rnb-panel input:focus-visible, .rnb-panel select:focus-visible,
.rnb-panel [tabindex]:focus-visible, .rnb-panel .rnb-act:focus-visible, .rnb-panel textarea:focus-visible,
.rnb-static [tabindex]:focus-visible {
  outline: 2px solid var(--rnb-bar); outline-offset: 1px; }
.rnb-panel button.jupyter-button:disabled { opacity: .5; }
.rnb-panel button.rnb-open { text-align: left; width: 100%; background: transparent; border-color: transparent;
  font-weight: 600; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; padding-left: 4px; }
.rnb-panel button.rnb-open:hover { background: var(--rnb-soft); }
.rnb-panel button.rnb-on { border-bottom: 3px solid var(--rnb-bar); font-weight: 600; }
.rnb-panel .rnb-bar { display: flex; flex-flow: row wrap; gap: 6px; margin: 4px 0; align-items: center;
  overflow: visible; }
.rnb-panel .rnb-views { border-bottom: 1px solid var(--rnb-line); gap: 2px; margin-top: 10px; }
.rnb-panel .rnb-views button.jupyter-button { background: transparent; border-color: transparent;
  border-bottom: 3px solid transparent; border-radius: 0; }
.rnb-panel .rnb-views button.rnb-on { border-bottom-color: var(--rnb-bar); }
.rnb-panel .rnb-ask { border: 1px solid var(--rnb-line); border-left: 4px solid var(--rnb-bar); padding: 6px 10px;
  background: var(--rnb-soft); border-radius: 3px; }
.rnb-panel .rnb-ask button.jupyter-button { background: var(--rnb-bg); }
.rnb-panel .rnb-doubt { display: block; border-left: 4px solid var(--rnb-fg); padding: 2px 0 4px 10px; margin: 6px 0; }
.rnb-panel .rnb-row { display: grid; grid-template-columns: minmax(9em, 15em) minmax(0, 1fr); align-items: start;
  border-bottom: 1px solid var(--rnb-line); overflow: visible; margin: 0; }
.rnb-panel .widget-text, .rnb-panel .widget-dropdown { width: auto; margin: 0; height: auto; min-height: 28px; }
.rnb-panel .widget-text input { min-width: 16em; }
.rnb-panel .widget-text input, .rnb-panel .widget-dropdown select { color: var(--rnb-fg);
  background-color: var(--rnb-bg); border: 1px solid var(--rnb-line); height: 28px; }
.rnb-panel .widget-dropdown select { min-width: 7em; max-width: 20em; text-overflow: ellipsis; }
.rnb-panel .widget-dropdown select { padding-right: 22px; background: no-repeat var(--rnb-bg);
  background-image: linear-gradient(45deg, transparent 50%, var(--rnb-fg) 50%),
    linear-gradient(135deg, var(--rnb-fg) 50%, transparent 50%);
  background-position: right 11px top 12px, right 6px top 12px; background-size: 5px 5px; }
.rnb-panel .widget-label { color: var(--rnb-fg); width: auto; min-width: 0; margin: 0 4px 0 0; }
& .rnb-head { display: grid; gap: 2px; }
& .rnb-title { display: flex; flex-flow: row wrap; gap: 2px 14px; align-items: baseline; }
& .rnb-title b { font-size: 1.15em; overflow-wrap: anywhere; }
& .rnb-facts { display: flex; flex-flow: row wrap; gap: 0 20px; }
& .rnb-facts b { font-weight: 600; overflow-wrap: anywhere; }
& .rnb-shape { display: inline-block; width: 1.3em; text-align: center; }
& .rnb-word { white-space: nowrap; font-weight: 600; }
& .rnb-track { display: block; height: 8px; background: var(--rnb-soft); border: 1px solid var(--rnb-line);
  border-radius: 4px; overflow: hidden; margin: 3px 0; }
& .rnb-track > span { display: block; height: 100%; background: var(--rnb-bar); }
& .rnb-cells { display: grid; grid-template-columns: 9.5em minmax(0, 1fr) 11em 5em 10em; gap: 0 10px; padding: 4px 0;
  align-items: baseline; }
& .rnb-cells > * { min-width: 0; overflow-wrap: anywhere; } & .rnb-num { text-align: right; white-space: nowrap; }
& .rnb-wide { grid-column: 1 / -1; }
& .rnb-wrap { overflow-x: auto; }
& .rnb-table.rnb-table { table-layout: auto; }
& .rnb-table { border-collapse: collapse; width: 100%; font-size: inherit; color: var(--rnb-fg); margin: 0; }
& .rnb-table th, & .rnb-table td { text-align: left; padding: 3px 10px 3px 0; vertical-align: top; max-width: none;
  border-bottom: 1px solid var(--rnb-line); background: transparent; overflow-wrap: anywhere; white-space: normal; }
& .rnb-table th { font-weight: 600; white-space: nowrap; }
& .rnb-table td.rnb-num, & .rnb-table th.rnb-num { text-align: right; overflow-wrap: normal; white-space: nowrap; }
& .rnb-table.rnb-table tbody tr:nth-child(n) { background: transparent; }
& .rnb-table.rnb-table code, & .rnb-pre, & .rnb-code { font-family: var(--rnb-mono); font-size: .92em;
  color: var(--rnb-fg); background: transparent; padding: 0; }
& .rnb-pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--rnb-soft); padding: 6px 8px;
  margin: 2px 0; max-height: 16em; overflow: auto; border-radius: 3px; }
& .rnb-code { width: 100%; box-sizing: border-box; background: var(--rnb-soft); border: 1px solid var(--rnb-line);
  padding: 6px 8px; resize: vertical; }
.rnb-panel .rnb-act { font: inherit; color: var(--rnb-fg); background: var(--rnb-soft); padding: 2px 10px;
  border: 1px solid var(--rnb-line); border-radius: 3px; min-height: 28px; cursor: pointer; }
& .rnb-detail { border: 1px solid var(--rnb-line); border-radius: 3px; padding: 4px 12px 8px; margin: 6px 0; }
& .rnb-detail h4, .rnb-static h4 { margin: 8px 0 2px; font-size: 1em; font-weight: 600; }
& .rnb-note { margin: 2px 0; } & .rnb-quiet { color: var(--rnb-dim); }
& .rnb-time { width: 100%; display: block; font-size: 12px; }
& .rnb-time text { fill: var(--rnb-fg); stroke: var(--rnb-bg); stroke-width: 3px; paint-order: stroke; }
& .rnb-time .rnb-odd { font-weight: 600; }
& .rnb-time .rnb-lane { stroke: var(--rnb-line); }
& .rnb-time .rnb-span { fill: var(--rnb-bar); fill-opacity: .35; stroke: var(--rnb-bar); }
& .rnb-time .rnb-tick { stroke: var(--rnb-fg); }
& .rnb-time .rnb-mark { fill: none; stroke: var(--rnb-fg); stroke-width: 1.5; }
& .rnb-time .rnb-pause { fill: url(#rnb-hatch); stroke: var(--rnb-fg); stroke-width: .5; }
& .rnb-time .rnb-end { stroke: var(--rnb-fg); stroke-dasharray: 3 2; }
@container (max-width: 700px) {
& .rnb-row { grid-template-columns: minmax(0, 1fr); }
& .rnb-cells { display: flex; flex-flow: row wrap; gap: 0 14px; padding: 4px 0 4px 4px; }
& .rnb-cells > :empty { display: none; } & .rnb-wide { flex: 1 0 100%; }
& .rnb-table.rnb-fold thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
& .rnb-table.rnb-fold, & .rnb-fold tbody, & .rnb-fold tr { display: block; }
& .rnb-table.rnb-fold tr { border-bottom: 1px solid var(--rnb-line); padding: 3px 0; }
& .rnb-table.rnb-fold td { display: inline-block; border: 0; padding: 0 10px 0 0; max-width: 100%; }
& .rnb-table.rnb-calls td:nth-child(3) { display: block; }
& .rnb-table.rnb-fold td:empty, & .rnb-table.rnb-fold td.rnb-opt { display: none; }
}
"""

# The static copy stands behind the widget, and is seen only where no living widget stands before it.
_SWAP: Final = """
.rnb-panel.jupyter-widgets-disconnected { display: none; }
.jp-OutputArea-child:has(.rnb-panel:not(.jupyter-widgets-disconnected)) + .jp-OutputArea-child:has(.rnb-static) {
  display: none; }
"""


def style(*, swap: bool = False) -> str:
    """The rules as an element. ``swap``: with those that show the static copy where the widget is gone."""
    rules = _RULES.replace("& ", ":is(.rnb-panel, .rnb-static) ")
    return f"<style>{rules}{_SWAP if swap else ''}</style>"
