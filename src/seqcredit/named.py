"""The user's own functions and classes by name: `my_file:my_function`, beside the recipe or on the Python path."""

import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import re
import sys
import traceback
from pathlib import Path
from types import CodeType, ModuleType

from seqcredit.errors import UserError, require

GIVEN = "python"  # the word for what was given in Python and has no name
FAILS = (Exception, SystemExit)  # how code of the user's ends that should have gone on
NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_WRITTEN: dict[str, str] = {}  # modules that were read from a file: their name in Python, and that in a recipe


def is_named(word: str) -> bool:
    """Whether a word names something of the user's own: a module, a colon, and a name in it."""
    return NAMED.fullmatch(word) is not None


def find(word: str, folder: Path | None = None) -> object:
    """What `module:name` names: in a file beside the recipe, which is in `folder`, or here, or on the Python path."""
    require(is_named(word), f"{word!r} names nothing: write it as FILE:NAME, such as my_file:score.")
    module, _, name = word.partition(":")
    path = file_of(word, folder) or file_of(word, Path())
    made = _import_name(module, folder) if path is None else _import_file(path, module)
    if not hasattr(made, name):
        raise UserError(f"{made.__file__ or module} has no {name!r}, which {word!r} asks for.")
    return getattr(made, name)


def file_of(word: str, folder: Path | None) -> Path | None:
    """The file beside the recipe that a word names something of; None if it is elsewhere."""
    path = None if folder is None else folder / place_of(word)
    return path.resolve() if path is not None and path.is_file() else None  # in this order: it may be a link to itself


def word_of(thing: object) -> str:
    """`module:name` of a function or a class in a file of its own; `GIVEN` for another, which only Python knows."""
    module, name = getattr(thing, "__module__", "__main__"), getattr(thing, "__qualname__", "")
    known = module != "__main__" and name.isidentifier() and getattr(sys.modules.get(module), name, None) is thing
    return f"{_WRITTEN.get(module, module)}:{name}" if known else GIVEN


def place_of(word: str) -> str:
    """Where the file of `module:name` stands, seen from the recipe."""
    return word.partition(":")[0].replace(".", "/") + ".py"


def source_of(thing: object, folder: Path | None = None) -> Path | None:
    """The file of a word, as `find` finds it, or of a function or a class; a part of a package has none to itself."""
    if isinstance(thing, str):
        beside = file_of(thing, folder) or file_of(thing, Path())
        if beside is not None or "." in thing:
            return beside
        place, found = place_of(thing), _origin(thing.partition(":")[0])
    else:
        module = getattr(thing, "__module__", "")
        place, found = place_of(word_of(thing)), getattr(sys.modules.get(module), "__file__", None)
        if "." in module:
            return None
    return Path(found).resolve() if found and Path(found).name == Path(place).name else None


def fingerprint(thing: object) -> str:
    """8 digits of a hash of what a function is made of: its file, or its own text where it has none to itself."""
    file = source_of(thing) if word_of(thing) != GIVEN else None
    return hashlib.sha256(file.read_bytes() if file else _text(thing).encode()).hexdigest()[:8]


def _text(thing: object) -> str:
    """The text of a function, of the class of a thing that is called, or, where nobody wrote it down, its code."""
    for each in (thing, type(thing)):
        with contextlib.suppress(OSError, TypeError):
            return inspect.getsource(each)  # type: ignore[arg-type]
    code = getattr(thing, "__code__", None)
    plain = [each for each in code.co_consts if not isinstance(each, CodeType)] if code else []
    return repr((code.co_code, code.co_names, plain)) if code else word_of(type(thing))


def _origin(module: str) -> str | None:
    """The file that Python imports, or has imported, as a module."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    found = importlib.machinery.PathFinder.find_spec(module)
    return found.origin if found else None


def said(error: BaseException) -> str:
    """An error in the user's code, in a few words: its kind, its message and its line."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f" ({Path(error.filename).name}, line {error.lineno})"
    return f"{type(error).__name__}: {message(error)}{where}".replace("\n", " ")


def own_place(error: BaseException) -> str | None:
    """Where an error has left a file of the user's that was found by its name; None if it was in none."""
    files = {getattr(sys.modules.get(name), "__file__", None) for name in _WRITTEN}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else None


def _is_ours(file: str) -> bool:
    """Whether a frame is seqcredit's or Python's own, on the way to the user's code."""
    return "<frozen" in file or Path(file).is_relative_to(Path(__file__).parent)


def shown(value: object) -> str:
    """A value of the user's as Python writes it; its kind where that fails, as of numbers of 5,000 digits."""
    with contextlib.suppress(Exception):
        return repr(value)
    return f"a {type(value).__name__}"


def message(error: BaseException) -> str:
    """What an error says, unless that fails too."""
    with contextlib.suppress(Exception):
        return str(error.msg if isinstance(error, SyntaxError) else error)
    return "(its message cannot be made)"


def _import_name(module: str, folder: Path | None) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and module.startswith(error.name):
            beside = f"beside the recipe in {folder}, nor here" if folder else "here"
            raise UserError(f"There is no {module}.py {beside}, and no module {module!r} on the Python path.") from None
        raise UserError(f"{module} cannot be imported. {said(error)}.") from None
    except FAILS as error:  # whatever the user's file does when it is imported
        raise UserError(f"{module} cannot be imported. {said(error)}.") from None


def _import_file(path: Path, written: str) -> ModuleType:
    """A file as a module, once, whose name was written so; what it imports may stand beside it."""
    name = path.stem
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) != str(path):
        name = f"{name}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    _WRITTEN[name] = written
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    try:
        spec.loader.exec_module(made)
    except FAILS as error:  # whatever the user's file does when it is imported
        del sys.modules[name]
        raise UserError(f"{path} cannot be imported. {said(error)}.") from None
    return made
