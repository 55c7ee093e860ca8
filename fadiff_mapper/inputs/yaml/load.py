"""Input files -> one tree that remembers file, line and path of everything in it.

    tree = load_files(["arch.yaml", "problem.yaml"])

Files are UTF-8 YAML, with Jinja2 templates where they use template syntax; reading executes nothing. A template may
call the functions of Timeloop's Python front end, which find files as there: in the folder of the file that asks, then
in the folders added with `add_to_path`. Only files with the suffixes in `SUFFIXES` can be included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import reduce
from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import SpecError, listed, nearest
from fadiff_mapper.inputs.yaml.input_file import read_text
from fadiff_mapper.inputs.yaml.located import Map, Seq, kind_of, mapping
from fadiff_mapper.inputs.yaml.parse import INCLUDED_TAG, joined, merged, parse
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.inputs.yaml.templates import Budget, Rendered, is_template

MAX_INCLUDES_DEEP = 20  # files that include one another, a plain safety limit
INCLUDE_UNITS = 2_000  # price of one inclusion in units of a template's budget, which allows 500 (MAX_UNITS)
SUFFIXES = (".yaml", ".yml", ".jinja", ".jinja2", ".j2", ".txt")  # files that a template may include


def load_files(paths: Sequence[str | Path], *, jinja_data: Mapping[str, object] | None = None) -> Map:
    """Reads YAML files into one mapping of their top-level keys. Raises SpecError.

    A key that several files give is combined as Timeloop's front end does: mappings key by key, lists in the order of
    `paths`, an empty or equal value once; anything else is a contradiction. A file given twice counts once.
    """
    trees: dict[Path, Map] = {}
    for file in [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]:
        tree = load_file(file, jinja_data=jinja_data)
        trees.setdefault(file.resolve(), tree)
    if not trees:
        raise SpecError("no input files; accepted: one or several YAML files")
    return combined(list(trees.values()))


def load_file(path: str | Path, *, jinja_data: Mapping[str, object] | None = None) -> Map:
    """Reads one YAML file with a mapping at the top; one budget of work covers all that it includes."""
    return mapping(_TemplateScope(Path(path), jinja_data or {}, Budget()).load(), Where(str(path), 1))


def load_text(text: str, file: str = "<text>") -> Map:
    """Reads one YAML document with a mapping at the top; templates are not expanded. Raises SpecError."""
    return mapping(parse(text, file), Where(file, 1))


def combined(trees: Sequence[Map]) -> Map:
    """The mappings of several files as one, see `load_files`. Raises SpecError where they contradict each other."""
    def is_empty(value: Any) -> bool:
        return value is None or (isinstance(value, str | Map | Seq) and len(value) == 0)

    def values(mine: Any, theirs: Any, place: Where, other: Where) -> Any:
        if is_empty(mine) or is_empty(theirs) or mine == theirs or str(mine) == str(theirs):
            return theirs if is_empty(mine) else mine
        if isinstance(mine, Map) and isinstance(theirs, Map):
            return merged(mine, theirs, values)
        if isinstance(mine, Seq) and isinstance(theirs, Seq):
            return joined(mine, theirs)
        raise other.error(f"found {kind_of(theirs)}, but {place} gives {kind_of(mine)}", "the same value in both files")

    return reduce(lambda mine, theirs: merged(mine, theirs, values), trees)


@dataclass
class _TemplateScope:
    """One file while it is read, with the state that it hands on to the files that it includes."""

    file: Path  # the file
    data: Mapping[str, object]  # variables of templates
    budget: Budget  # work that templates may still do, shared by all of them
    around: tuple[Path, ...] = ()  # folders in which the including files look for others
    depth: int = 0  # number of files around this one
    # Trees that this file and those around it have included so far; rendered texts refer to them by number.
    included: list[Any] = field(default_factory=list)
    folders: list[Path] = field(init=False)  # folders in which it looks for files, its own first

    def load(self) -> Any:
        """Reads the file, rendered first where it is a template."""
        text = read_text(self.file)
        if not is_template(text):
            return parse(text, str(self.file))
        rendered = self.rendered(text)
        return parse(rendered.text, str(self.file), rendered.lines, self.included)

    def rendered(self, text: str) -> Rendered:
        """Its text as it reads once rendered; a template may call these functions, under the front end's names."""
        from fadiff_mapper.inputs.yaml import jinja_sandbox  # loads Jinja
        self.folders = [self.file.resolve().parent, *self.around]

        def add_to_path(pattern: str) -> str:
            self.folders += self.found(pattern)
            return ""

        def refused(*_: object) -> str:
            raise ValueError("setenv() is not supported: a specification cannot change the environment")

        functions: dict[str, Callable[..., Any]] = {
            "add_to_path": add_to_path,
            "cwd": lambda: str(self.folders[0]),
            "find_path": lambda pattern: str(self.found(pattern)[0]),
            "find_paths": lambda pattern: [str(path) for path in self.found(pattern)],
            "include": self.include,
            "include_all": self.include_all,
            "include_text": self.include_text,
            "path_exists": lambda path: any(_exists(folder / path) for folder in self.folders),
            "setenv": refused,
        }
        return jinja_sandbox.render(text, str(self.file), functions, self.data, self.budget)

    def include(self, pattern: str, keys: str = "") -> str:
        """A placeholder for a file's tree, or for the part of it under dot-separated keys."""
        paths = self.found(pattern)
        if len(paths) > 1:
            raise ValueError(f'include("{pattern}") finds {listed(paths)}; accepted: one file, or include_all')
        return self.placeholder(_picked(self.inner(paths[0]).load(), keys))

    def include_all(self, pattern: str, keys: str = "") -> str:
        """A placeholder for one list of several files' parts, lists among them joined; one part stays as it is."""
        parts = [_picked(self.inner(path).load(), keys) for path in self.found(pattern)]
        if len(parts) == 1:
            return self.placeholder(parts[0])
        where = Where("include_all")
        return self.placeholder(reduce(joined, (part if isinstance(part, Seq) else Seq([part], where=where)
                                                for part in parts), Seq(where=where)))

    def include_text(self, pattern: str) -> str:
        """The rendered text of one or several files, in place; together they are paid as one inclusion."""
        from fadiff_mapper.inputs.yaml.jinja_sandbox import marked
        first, *others = self.found(pattern)
        scopes = [self.inner(first), *(self.inner(path, paid=True) for path in others)]
        return "\n".join(marked(scope.rendered(read_text(scope.file))).rstrip("\n") for scope in scopes)

    def found(self, pattern: str) -> list[Path]:
        """All files and folders of that name, or matching its last component. Raises ValueError if none."""
        if not isinstance(pattern, str):
            raise ValueError(f"found {kind_of(pattern)}; accepted: the name of a file")
        matches: list[Path] = []
        for path in (folder / pattern for folder in self.folders):
            if not any(letter in path.name for letter in "*?["):
                matches += [path.resolve()] if _exists(path) else []
            elif path.parent.is_dir():
                matches += [entry.resolve() for entry in sorted(path.parent.iterdir())
                            if fnmatchcase(entry.name, path.name) and not entry.name.startswith(".")]
        if not matches:
            raise ValueError(f'there is no "{pattern}" in {listed(dict.fromkeys(self.folders))}')
        return list(dict.fromkeys(matches))

    def inner(self, path: Path, paid: bool = False) -> _TemplateScope:
        """The scope of an included file, counted against the budget of includes. ValueError beyond the limits."""
        if path.suffix not in SUFFIXES:
            raise ValueError(f'"{path.name}" cannot be included; accepted: names that end in {listed(SUFFIXES)}')
        if not paid:
            self.budget.charge(INCLUDE_UNITS)
        if self.depth >= MAX_INCLUDES_DEEP:
            raise ValueError(f"files include one another more than {MAX_INCLUDES_DEEP} deep")
        here = Path.cwd()
        shown = path.relative_to(here) if path.is_relative_to(here) else path
        return _TemplateScope(shown, self.data, self.budget, tuple(self.folders), self.depth + 1, self.included)

    def placeholder(self, value: Any) -> str:
        """Text in place of a tree, which is put in when the rendered text is parsed."""
        self.included.append(value)
        return f"{INCLUDED_TAG} {len(self.included) - 1}"


def _exists(path: Path) -> bool:
    """Whether there is a file or folder; False for names that the system refuses."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _picked(value: Any, keys: str) -> Any:
    """The part of a tree under dot-separated keys."""
    for key in keys.strip(".").split(".") if keys.strip(".") else ():
        if not isinstance(value, Map) or key not in value:
            known = [str(name) for name in value] if isinstance(value, Map) else []
            place = value.where if isinstance(value, Map | Seq) else "the included value"
            raise ValueError(f'{place}: there is no "{key}"{nearest(key, known)}; accepted: {listed(known)}')
        value = value[key]
    return value
