"""KL105."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import chain

from kernel_lint import TYPE_CHECKING
from kernel_lint.rule import Context, Finding, Invalid, cases
from kernel_lint.rules._modules import NETWORK
from kernel_lint.rules._paths import ForbiddenPaths
from kernel_lint.source.domain import Attr, Param, Qual
from kernel_lint.source.scopes import walk

if TYPE_CHECKING:
    from typing import ClassVar

_FILE = "reads or writes a file"
_FOLDER = "looks into a folder"
_PROCESS = "starts another process"
_NET = "uses the network"
_SELF = "tells where the file lies"
_PATH_METHODS = frozenset(
    """read_text read_bytes write_text write_bytes open iterdir glob rglob walk touch unlink mkdir rmdir
    rename replace symlink_to hardlink_to""".split()
)
# Methods that only a path has, whatever object they are called on.
_ONLY_PATHS = frozenset({"read_text", "read_bytes", "write_text", "write_bytes"})


class FileRead(ForbiddenPaths):
    """
    ## What it does
    Finds access to files, folders, the network and other processes, through any function that does it: `open`,
    `pathlib`, `os`, `torch.load`, `numpy.load`, archives, `pkgutil`, `importlib.resources`, `subprocess`, sockets, and
    `__file__`.

    ## Why is this bad?
    A candidate runs alone in an empty directory: the file is not there. Reading `shapes.json`, `input.py` or a report of
    the evaluator is forbidden outright; writing leaves traces that falsify later runs.

    ## What is allowed
    `io.StringIO`, `json.dumps`, the name of a file in a string, a `load` method of a FlyDSL fragment.

    ## How to fix it
    Put the constants into the source. Tuning results belong in a table in the file.

    ## Example
    ```python
    with open("tuned.json") as f:
        TILES = json.load(f)
    ```

    ## Use instead
    ```python
    TILES = {(4096, 4096): (128, 128)}
    ```

    ## References
    - Contract clause X8: no reads of external files.
    """

    code = "KL105"
    name = "file-read"
    clauses = ("X8",)
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        "builtins.open": _FILE,
        "io.FileIO": _FILE,
        "io.open_code": _FILE,
        "codecs.open": _FILE,
        **{
            f"os.{name}": _FILE
            for name in "open read pread readv truncate remove unlink rename replace link symlink sendfile memfd_create".split()
        },
        **{
            f"os.{name}": _FOLDER
            for name in "listdir scandir walk fwalk stat lstat mkdir makedirs rmdir removedirs chdir access".split()
        },
        **{
            f"os.{name}": _PROCESS
            for name in """system popen fork forkpty posix_spawn posix_spawnp startfile execv execve
            execl execle execlp execvp execvpe spawnl spawnle spawnv spawnve spawnvp spawnlp""".split()
        },
        "os.path.getsize": _FOLDER,
        "os.path.getmtime": _FOLDER,
        **dict.fromkeys(
            "fileinput linecache tokenize.open mmap shutil tempfile glob shelve dbm sqlite3 filecmp".split(),
            _FILE,
        ),
        **dict.fromkeys("zipfile tarfile gzip bz2 lzma h5py safetensors".split(), _FILE),
        "json.load": _FILE,
        "json.dump": _FILE,
        "pickle.load": _FILE,
        "pickle.dump": _FILE,
        "tomllib.load": _FILE,
        "configparser.ConfigParser().read": _FILE,
        "yaml": _FILE,
        "torch.load": _FILE,
        "torch.save": _FILE,
        "torch.from_file": _FILE,
        "torch.hub": _NET,
        "torch.serialization": _FILE,
        "torch.Tensor.from_file": _FILE,
        "torch.UntypedStorage.from_file": _FILE,
        **{
            f"numpy.{name}": _FILE
            for name in "load save savez loadtxt savetxt genfromtxt fromfile memmap DataSource".split()
        },
        "importlib.resources": _FILE,
        "pkgutil.get_data": _FILE,
        "inspect.getsource": "reads source files",
        "inspect.getsourcelines": "reads source files",
        "inspect.getsourcefile": _SELF,
        "inspect.getfile": _SELF,
        "subprocess": _PROCESS,
        "pty": _PROCESS,
        "pexpect": _PROCESS,
        "urllib.request": _NET,
        "http": _NET,
        "socket": _NET,
        "socketserver": _NET,
        "ssl": _NET,
        "ftplib": _NET,
        "smtplib": _NET,
        "xmlrpc": _NET,
        "webbrowser": _NET,
        **dict.fromkeys(sorted(NETWORK), _NET),
        "__file__": _SELF,
        "__loader__": _SELF,
        "__spec__": _SELF,
        "__path__": _SELF,
        "__cached__": _SELF,
    }
    HELP = "put what it would read into the source; a candidate runs alone in an empty directory"
    VALID = cases(
        lambda: (
            "import io\ns = io.StringIO()\ns.write('x')\n",
            "import json\ndef key(c):\n    return json.dumps(c)\n",
            "NAME = 'shapes.json'\n",
            "def f(fragment):\n    return fragment.load()\n",
            "import os\nx = os.path.join('a', 'b')\n",
            "class Door:\n    def open(self):\n        return 1\n\nDoor().open()\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("import json\nwith open('shapes.json') as f:\n    S = json.load(f)\n", lines=(2, 3)),
            Invalid("from pathlib import Path\nT = Path('r.md').read_text()\n", lines=(2,)),
            Invalid("from pathlib import Path\nT = (Path('.') / 'r.md').read_text()\n", lines=(2,)),
            Invalid("import torch\nW = torch.load('w.pt')\n", lines=(2,)),
            Invalid("import os\nfd = os.open('x', os.O_RDONLY)\n", lines=(2,)),
            Invalid("import numpy as np\nW = np.memmap('w.bin')\n", lines=(2,)),
            Invalid("import subprocess\nD = subprocess.check_output(['cat', 'x'])\n", lines=(1, 2)),
            Invalid("import os\nD = os.listdir(os.path.dirname(__file__))\n", lines=(2, 2)),
            Invalid("o = open\n", lines=(1,)),
            Invalid("import io\nf = io.open('x')\n", lines=(2,)),
            Invalid("import builtins\nf = vars(builtins)['op' + 'en']('x')\n", lines=(2,)),
            Invalid("def f(p):\n    return p.read_text()\n", lines=(2,)),
            Invalid("import socket\n", lines=(1,)),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield forbidden functions, then the methods of path objects."""
        yield from super().check(context)
        attributes = context.module.scopes.attributes
        for node in chain.from_iterable(attributes[name] for name in attributes.keys() & _PATH_METHODS):
            if self._is_path_method(context, node):
                yield Finding(node, f"`{node.attr}` of a path {_FILE}", self.HELP)

    def _is_path_method(self, context: Context, node: ast.Attribute) -> bool:
        for value in context.module.values.of(node):
            if isinstance(value, Qual) and value.name.startswith(
                ("pathlib.Path()", "pathlib.PosixPath()", "pathlib.Path.")
            ):
                return True
            if node.attr in _ONLY_PATHS and not isinstance(value, Qual):
                if isinstance(value, (Attr, Param)) or self._made_of_path(context, node):
                    return True
        return False

    def _made_of_path(self, context: Context, node: ast.Attribute) -> bool:
        """An unknown object that only a path can be: ``(Path(".") / name).read_text``."""
        parts = [part for part in walk(node.value) if isinstance(part, (ast.Call, ast.Name))]
        return any(
            isinstance(v, Qual) and v.name.startswith("pathlib.")
            for p in parts
            for v in context.module.values.of(p)
        )
