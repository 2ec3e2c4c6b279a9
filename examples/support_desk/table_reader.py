"""Reads the rows of a CSV export whatever program wrote it: its encoding, separator and column titles."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from examples.support_desk.cell_values import clean_text, repair_text
from examples.support_desk.records import DataProblem

__all__ = ["Table", "TableRow", "build_problem", "decode_text", "read_table"]


@dataclass(frozen=True)
class TableRow:
    """One row that has content.

    Attributes:
        source: File and first line, such as `orders.csv:137`.
        cells: Cleaned text by the name of the column.
    """

    source: str
    cells: Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """The rows of one file.

    Attributes:
        file: Its name.
        row_count: All rows after the header, blank and unreadable ones included.
        blank: Rows without content.
        rows: Rows with a cell for each column.
        problems: What was repaired or skipped.
    """

    file: str
    row_count: int
    blank: int
    rows: tuple[TableRow, ...]
    problems: tuple[DataProblem, ...]


def build_problem(
    source: str, column: str, found: str, problem: str, treatment: str = "left empty"
) -> DataProblem:
    """Return a problem with `found` cut to a readable length."""
    shown = found if len(found) <= 60 else found[:59] + "…"
    match treatment:
        case "left empty" | "row skipped" | "repaired" | "first row kept":
            return DataProblem(source, column, shown, problem, treatment)
        case _:
            raise ValueError(f"unknown treatment {treatment!r}")


def decode_text(data: bytes, file: str) -> tuple[str, tuple[DataProblem, ...]]:
    """Decode UTF-8, with or without a byte order mark, or else Windows-1252, which is reported."""
    try:
        return data.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = build_problem(f"{file}:{line}", "", file, "not UTF-8, read as Windows-1252", "repaired")
        return data.decode("cp1252", errors="replace"), (problem,)


def read_table(path: Path, columns: Mapping[str, tuple[str, ...]]) -> Table:
    """Read a table.

    Args:
        path: The file.
        columns: For each column to be read: the titles it may have, in lower case.

    Raises:
        ValueError: The file has no header, or lacks a column.
    """
    text, found_problems = decode_text(path.read_bytes(), path.name)
    problems = list(found_problems)
    header_line = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=header_line.count)
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter, strict=True)
    titles = [clean_text(title).lower() for title in next(reader, [])]
    places = _find_columns(path.name, titles, columns)
    rows: list[TableRow] = []
    row_count = blank = 0
    while True:
        source = f"{path.name}:{reader.line_num + 1}"
        try:
            cells = next(reader, None)
        except csv.Error as error:
            row_count += 1
            problems.append(build_problem(source, "", "", f"broken quoting: {error}", "row skipped"))
            continue
        if cells is None:
            return Table(path.name, row_count, blank, tuple(rows), tuple(problems))
        row_count += 1
        if not any(cell.strip() for cell in cells):
            blank += 1
        elif len(cells) != len(titles):
            problem = f"{len(cells)} cells instead of {len(titles)}"
            problems.append(build_problem(source, "", delimiter.join(cells), problem, "row skipped"))
        else:
            row, repairs = _read_row(source, cells, places)
            rows.append(row)
            problems.extend(repairs)


def _find_columns(file: str, titles: list[str], columns: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    places: dict[str, int] = {}
    for column, spellings in columns.items():
        place = next((place for place, title in enumerate(titles) if title in spellings), None)
        if place is None:
            raise ValueError(
                f"{file}: no column {column!r} among {', '.join(map(repr, titles)) or 'no titles'}"
            )
        places[column] = place
    return places


def _read_row(source: str, cells: list[str], places: Mapping[str, int]) -> tuple[TableRow, list[DataProblem]]:
    repairs: list[DataProblem] = []
    read: dict[str, str] = {}
    for column, place in places.items():
        cell = clean_text(cells[place])
        repaired = repair_text(cell)
        if repaired != cell:
            repairs.append(build_problem(source, column, cell, "decoded wrongly once", "repaired"))
        read[column] = repaired
    return TableRow(source, read), repairs
