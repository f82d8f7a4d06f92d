"""Calls of libraries that change what no variable shows and nothing can read back: their steps are replayed."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any, Final

from resumable_nb.source import Body, names_of

_METHODS: Final = "it adds methods to classes of a library"
_SHOWN: Final = "it changes how values are shown"
_DRAWN: Final = "it changes how figures are drawn"
_SHELL: Final = "it changes the shell"
_REGISTERED: Final = "it registers something with a library"
_PROCESS: Final = "it changes the process"

_CALLS: Final[dict[str, dict[str, str]]] = {
    "IPython": {
        "set_matplotlib_formats": _DRAWN, "set_matplotlib_close": _DRAWN, "register_alias": _SHELL,
        "set_custom_exc": _SHELL, "enable_matplotlib": _DRAWN, "enable_pylab": _DRAWN, "enable_gui": _SHELL,
    },
    "altair": {"enable": _SHOWN, "register": _REGISTERED, "disable_max_rows": _SHOWN},
    "asyncio": {"set_event_loop_policy": _PROCESS},
    "atexit": {"register": _PROCESS},
    "bokeh": {"output_notebook": _SHOWN, "output_file": _SHOWN},
    "calendar": {"setfirstweekday": _PROCESS},
    "codecs": {"register": _REGISTERED, "register_error": _REGISTERED},
    "copyreg": {"pickle": _REGISTERED},
    "cufflinks": {"go_offline": _METHODS, "set_config_file": _DRAWN},
    "dask": {".config.set": _PROCESS, ".set": _PROCESS},
    "holoviews": {"extension": _SHOWN, "notebook_extension": _SHOWN},
    "hvplot": {"extension": _SHOWN},
    "itables": {"init_notebook_mode": _SHOWN},
    "logging": {
        "addHandler": _PROCESS, "removeHandler": _PROCESS, "addFilter": _PROCESS, "disable": _PROCESS,
        "setFormatter": _PROCESS, "addLevelName": _PROCESS, "setLoggerClass": _PROCESS, "captureWarnings": _PROCESS,
        "dictConfig": _PROCESS, "fileConfig": _PROCESS,
    },
    "matplotlib": {
        "ion": _DRAWN, "ioff": _DRAWN, "switch_backend": _DRAWN, "addfont": _DRAWN,
        "register": _REGISTERED, "register_cmap": _REGISTERED, "register_scale": _REGISTERED,
        "register_projection": _REGISTERED,
    },
    "matplotlib_inline": {"set_matplotlib_formats": _DRAWN, "set_matplotlib_close": _DRAWN},
    "mimetypes": {"add_type": _REGISTERED},
    "mlflow": {"autolog": _METHODS, "set_tracking_uri": _PROCESS},
    "multiprocessing": {"set_start_method": _PROCESS},
    "nest_asyncio": {"apply": _PROCESS},
    "numpy": {"set_string_function": _SHOWN},
    "pandarallel": {"initialize": _METHODS},
    "pandas": {
        "register_dataframe_accessor": _METHODS, "register_series_accessor": _METHODS,
        "register_index_accessor": _METHODS,
        "register_extension_dtype": _REGISTERED, "register_matplotlib_converters": _REGISTERED,
        "deregister_matplotlib_converters": _REGISTERED,
    },
    "panel": {"extension": _SHOWN},
    "plotly": {"init_notebook_mode": _SHOWN},
    "plotnine": {"theme_set": _DRAWN},
    "polars": {
        "register_dataframe_namespace": _METHODS, "register_series_namespace": _METHODS,
        "register_expr_namespace": _METHODS, "register_lazyframe_namespace": _METHODS,
    },
    "rich": {".install": _SHOWN, ".pretty.install": _SHOWN, ".traceback.install": _SHOWN, "install": _SHOWN},
    "seaborn": {"_patch_colormap_display": _METHODS},
    "socket": {"setdefaulttimeout": _PROCESS},
    "spacy": {"set_extension": _METHODS},
    "sqlite3": {"register_adapter": _REGISTERED, "register_converter": _REGISTERED},
    "sympy": {"init_printing": _SHOWN, "init_session": _SHOWN},
    "tensorflow": {"set_seed": _PROCESS, "set_floatx": _PROCESS, "set_global_policy": _PROCESS},
    "keras": {"set_random_seed": _PROCESS, "set_floatx": _PROCESS, "set_global_policy": _PROCESS},
    "time": {"tzset": _PROCESS},
    "torch": {
        "set_printoptions": _SHOWN, "set_default_device": _PROCESS, "set_default_tensor_type": _PROCESS,
        "set_float32_matmul_precision": _PROCESS,
    },
    "tqdm": {"pandas": _METHODS},
    "urllib": {"install_opener": _PROCESS},
    "xarray": {"register_dataset_accessor": _METHODS, "register_dataarray_accessor": _METHODS},
    "yaml": {"add_constructor": _REGISTERED, "add_representer": _REGISTERED, "add_implicit_resolver": _REGISTERED},
}  # fmt: skip
"""The last name of a call, by the library that its first name is of; with a dot, all names after the first."""


def why_replayed(body: Body, variables: Mapping[str, Any]) -> str:
    """What the code has set up that cannot be put back; empty for most. Asked after it has run."""
    for root, names in sorted({*body.touched.calls, *_in_functions(body, variables)}):
        if root in variables:
            known = _CALLS.get(_library(variables[root]), {})
            effect = known.get(names.rpartition(".")[2]) or known.get(f".{names}")
            if effect:
                return f"{effect} ({root if root == names else f'{root}.{names}'})"
    return ""


def _library(value: object) -> str:
    """Where a module, function or class is from, or an object's class."""
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    if not isinstance(module, str) or module == "__main__":
        module = str(type(value).__module__)
    package = module.partition(".")[0]
    return "IPython" if package == "ipykernel" else package


def _in_functions(body: Body, variables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Calls in the notebook's functions that the body calls, and in theirs."""
    todo, seen = [root for root, names in body.touched.calls if root == names], set[str]()
    while todo:
        function = variables.get(name := todo.pop())
        if name in seen or not isinstance(function, types.FunctionType) or function.__module__ != "__main__":
            continue
        seen.add(name)
        used = names_of(function.__code__)
        for each in used.globals:
            yield from ((each, attribute) for attribute in (each, *used.attributes))
        todo += used.globals
