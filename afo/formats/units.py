"""Quantities as users write them: memory, durations, ratios, bounds of numbers, date variables. No I/O."""

import datetime
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from afo.errors import SpecError

_MEMORY = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*$")
_MEMORY_UNITS = {
    "": 1.0, "m": 1.0, "mb": 1.0, "mib": 1.0,
    "k": 1 / 1024, "kb": 1 / 1024, "kib": 1 / 1024,
    "g": 1024.0, "gb": 1024.0, "gib": 1024.0,
    "t": 1024.0**2, "tb": 1024.0**2, "tib": 1024.0**2,
    "p": 1024.0**3, "pb": 1024.0**3, "pib": 1024.0**3,
}  # fmt: skip
#: An amount in MiB up to which GiB may have been meant.
_MOST_GUESSED = 64
#: YARN counts MiB in 32 bits.
_MOST_MIB = 2**31 - 1
#: 100 years, in seconds.
_MOST_SECONDS = 36_500 * 86400.0
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_INTERVAL = re.compile(r"(\d+(?:\.\d+)?(?:e\+?\d+)?)\s*(step|sample|epoch)s?")
_MOST_STEPS = 1e15
_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_OR_SECONDS = " or a number of seconds"
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*([+-]\s*\d+)?\s*(?:\.\.\s*(\w+)\s*([+-]\s*\d+)?\s*)?\}\}")

#: That one may come to.
_MOST_TEXTS = 100_000
#: Of all texts of one job.
MOST_CHARACTERS = 1 << 24

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_ONE_SIDED = re.compile(rf"(>=|<=)\s*({_NUMBER})")
_RANGE = re.compile(rf"({_NUMBER})\s*\.\.\s*({_NUMBER})")


class Memory(int):
    """An amount of memory in MiB, written `8 GiB`, `8g` or `8192` (MiB, as Hadoop does)."""

    @classmethod
    def parse(cls, value: object) -> "Memory":
        """Read a user's value. Raises `SpecError` on an unknown unit, a fraction of a MiB, none, or 2 PiB and more."""
        match = _MEMORY.match(str(value)) if isinstance(value, int | float | str) else None
        unit = match.group(2).lower() if match else ""
        if match is None or isinstance(value, bool) or unit not in _MEMORY_UNITS:
            raise SpecError(
                f"{_quote_value(value)} is not an amount of memory; write e.g. '8 GiB', '512m' or 8192 (MiB)"
            )
        mib = float(match.group(1)) * _MEMORY_UNITS[unit]
        if mib > _MOST_MIB:
            raise SpecError(
                f"{_quote_value(value)} is too much; memory is at most {_MOST_MIB} MiB, just under 2 PiB (units are"
                " binary: 1 PB is 1 PiB)"
            )
        if mib < 1 or mib != int(mib):
            raise SpecError(f"{_quote_value(value)} is {mib:g} MiB; memory is a whole number of MiB, at least 1")
        return cls(mib)

    def more(self, least: int) -> str:
        """What to write instead, where it takes `least` MiB: as Hadoop has it, a number without a unit is MiB."""
        return f"did you mean {int(self)} GiB?" if self <= _MOST_GUESSED else f"give it {least} MiB or more"

    def __str__(self) -> str:
        return f"{self // 1024} GiB" if self % 1024 == 0 else f"{int(self)} MiB"


class Duration(float):
    """A time span in seconds, written `10m`, `1h30m`, `90s` or a number of seconds."""

    @classmethod
    def parse(cls, value: object) -> "Duration":
        """Read a user's value. Raises `SpecError` on an unknown unit, a negative number or over 100 years."""
        seconds = cls._seconds(value)
        if seconds > _MOST_SECONDS:
            raise SpecError(f"{_quote_value(value)} is too long; a duration is at most 36500d, which are 100 years")
        return cls(seconds)

    @classmethod
    def _seconds(cls, value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return value
        if isinstance(value, str):
            text = value.strip()
            parts = _DURATION.findall(text)
            if parts and re.fullmatch(rf"(?:{_DURATION.pattern}\s*)+", text):
                return sum(float(number) * _DURATION_UNITS[unit] for number, unit in parts)
            if re.fullmatch(r"\d+(\.\d+)?", text):
                return float(text)
        raise SpecError(f"{_quote_value(value)} is not a duration; write e.g. '10m', '1h30m', '90s'{_OR_SECONDS}")

    def __str__(self) -> str:
        rest, text = float(self), ""
        for unit in ("d", "h", "m"):
            whole, rest = divmod(rest, _DURATION_UNITS[unit])
            text += f"{int(whole)}{unit}" if whole else ""
        return text + (f"{rest:g}s" if rest or not text else "")


class Interval(str):
    """How often something is to be done: by time (`10m`), or by `2000 steps`, `500000 samples` or `0.5 epochs`."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: object) -> "Interval":
        """Read a user's value. Raises `SpecError` on an unknown unit, none at all, or a part of a step or sample.

        A number without a unit is refused, too: by Keras one would mean epochs or steps, and not seconds.
        """
        match = _INTERVAL.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            return cls._by_time(value)
        number, unit = float(match[1]), match[2]
        if not 0 < number <= _MOST_STEPS or (unit != "epoch" and number != int(number)):
            whole = "a number" if unit == "epoch" else "a whole number"
            raise SpecError(f"{_quote_value(value)}: {unit}s are {whole} above 0 and at most 1e15")
        return cls(f"{number:.15g} {unit}{'' if number == 1 else 's'}")

    @classmethod
    def _by_time(cls, value: object) -> "Interval":
        if _is_bare(value):
            number = str(value).strip()
            counted = f"'{number} steps', '{number} samples', " if float(number).is_integer() else ""
            raise SpecError(
                f"{_quote_value(value)} has no unit; write '{number}m' or '{number}s' for a time, or {counted}"
                f"'{number} epochs'"
            )
        try:
            return cls(Duration(round(Duration.parse(value), 3)))
        except SpecError as error:
            # Seconds need their unit here.
            said = str(error).removesuffix(_OR_SECONDS)
            raise SpecError(f"{said}; or '2000 steps', '500000 samples', '0.5 epochs'") from error

    @property
    def seconds(self) -> float | None:
        """None where it does not go by time."""
        return float(Duration.parse(str(self))) if self._amount is None else None

    @property
    def steps(self) -> int | None:
        """None where it does not go by steps."""
        return self._number_of("step")

    @property
    def samples(self) -> int | None:
        """None where it does not go by samples."""
        return self._number_of("sample")

    @property
    def epochs(self) -> float | None:
        """None where it does not go by epochs."""
        found = self._amount
        return float(found[1]) if found and found[2] == "epoch" else None

    def is_passed(self, before: int, now: int) -> bool:
        """Whether a multiple of its steps lies above step `before` and not above `now`; by time, always."""
        return self.steps is None or now // self.steps > before // self.steps

    def passing(self, before: int, steps: Iterable[int]) -> Iterator[bool]:
        """Whether a multiple is passed with each of `steps`, one after the other; one of fewer steps begins anew.

        `before`: the step of the last one that counted.
        """
        for step in steps:
            counts = step < before or self.is_passed(before, step)
            before = step if counts else before
            yield counts

    def _number_of(self, unit: str) -> int | None:
        found = self._amount
        return int(float(found[1])) if found and found[2] == unit else None

    @property
    def _amount(self) -> re.Match[str] | None:
        return _INTERVAL.fullmatch(self)


def _is_bare(value: object) -> bool:
    """Whether it is a number alone."""
    if isinstance(value, str):
        return re.fullmatch(r"\d+(\.\d+)?", value.strip()) is not None
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _quote_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def parse_quantity(kind: type, value: object) -> object:
    """Decoding hook for `msgspec`: turns what the user wrote into a `Memory`, a `Duration` or an `Interval`."""
    if kind is Memory or kind is Duration or kind is Interval:
        return kind.parse(value)
    raise NotImplementedError(f"no way to read a {kind.__name__}")


def variables_in(text: str) -> set[str]:
    """Names of the variables that a text uses."""
    return {name for match in _VARIABLE.finditer(text) for name in match.group(1, 3) if name}


def expand_variables(text: str, variables: dict[str, str], room: int = MOST_CHARACTERS) -> list[str]:
    """Replace `{{dt}}`, `{{dt-1}}` and ranges `{{dt-6..dt}}`; a range multiplies the text.

    Arithmetic counts days and needs a variable of the form YYYY-MM-DD or YYYYMMDD.
    Raises `SpecError` for an unknown variable, a bad date, an empty or over-long range (1,000 days), and ranges that
    come to over 100,000 texts together, or to texts of over `room` characters.
    """
    # Counted before anything is joined: a short text may come to more than memory holds.
    pieces, place, count, size = list[list[str]](), 0, 1, 0
    for match in _VARIABLE.finditer(text):
        before, values = text[place : match.start()], _values(match, variables, text)
        place = match.end()
        pieces += [[before], values]
        size = size * len(values) + count * (len(before) * len(values) + sum(map(len, values)))
        count *= len(values)
        _check_size(text, count, size, room)
    _check_size(text, count, size + count * len(text[place:]), room)
    return ["".join(chosen) + text[place:] for chosen in itertools.product(*pieces)]


def _check_size(text: str, count: int, size: int, room: int) -> None:
    if count > _MOST_TEXTS:
        raise SpecError(
            f"the ranges in {_quote_value(text)} come to more than {_MOST_TEXTS} texts together; name fewer days"
        )
    if size > room:
        raise SpecError(
            f"with {_quote_value(text)} the job's texts come to more than {MOST_CHARACTERS} characters, once their "
            "variables are replaced; name fewer days or give the variables shorter values"
        )


def _values(match: re.Match[str], variables: dict[str, str], text: str) -> list[str]:
    name, shift, last, last_shift = match.groups()
    first_value = _shift_date(name, shift, variables)
    return [first_value] if last is None else _range(first_value, _shift_date(last, last_shift, variables), text)


def _shift_date(name: str, shift: str | None, variables: dict[str, str]) -> str:
    if name not in variables:
        known = ", ".join(sorted(variables)) or "none is defined"
        raise SpecError(f"unknown variable {name!r}; known: {known}; define it under `vars:` or with --var {name}=…")
    value = variables[name]
    if not shift:
        return value
    date, form = _date(name, value)
    try:
        return (date + datetime.timedelta(days=int(shift.replace(" ", "")))).strftime(form)
    except (OverflowError, ValueError) as error:
        raise SpecError(
            f"{name!r} is {value!r}, and {_quote_value(shift)} days lead out of the years 1 to 9999; name fewer days"
        ) from error


def _date(name: str, value: str) -> tuple[datetime.date, str]:
    for form in ("%Y-%m-%d", "%Y%m%d"):
        try:
            return datetime.datetime.strptime(value, form).date(), form
        except ValueError:
            continue
    raise SpecError(f"variable {name!r} is {value!r}; a date is written 2026-11-19 or 20261119")


def _range(first: str, last: str, text: str) -> list[str]:
    (start, form), (end, _) = _date(text, first), _date(text, last)
    days = (end - start).days + 1
    if not 1 <= days <= 1000:
        raise SpecError(f"{text!r} spans {days} days; a range has between 1 and 1000")
    return [(start + datetime.timedelta(days=n)).strftime(form) for n in range(days)]


@dataclass(frozen=True)
class Bound:
    """A closed interval, written `>=0.74`, `<=0.1` or `0.9..1.1`: as `text`. An open side is infinite."""

    least: float
    most: float
    text: str

    @classmethod
    def parse(cls, text: str) -> "Bound":
        """Raises `ValueError` (so that msgspec names the place) for a text of another form, or an empty range."""
        stripped = text.strip()
        if match := _ONE_SIDED.fullmatch(stripped):
            value = float(match[2])
            return cls(value, math.inf, stripped) if match[1] == ">=" else cls(-math.inf, value, stripped)
        if match := _RANGE.fullmatch(stripped):
            bound = cls(float(match[1]), float(match[2]), stripped)
            if bound.least <= bound.most:
                return bound
            raise ValueError(f"{text!r} holds no number: its first is above its second")
        raise ValueError(f"{text!r} is no bound; write '>=0.74', '<=0.1' or '0.9..1.1'")

    def holds(self, value: float) -> bool:
        """Whether `value` lies within; no number (NaN) does."""
        return self.least <= value <= self.most
