"""Texts of few values as numbers while rows are put in order: moved, put aside and written without their letters."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

MOST_VALUES = 65_536
_MOST_BYTES = 4 * 1024 * 1024


class TooManyTextsError(Exception):
    """There are more different texts than are worth a number; the rows are to be read as they are."""


class TextCodes:
    """One number for each different text of a column, whichever dictionary it came from."""

    def __init__(self, schema: pa.Schema) -> None:
        """Takes the schema of the rows that come; columns that are dictionaries of strings get numbers."""
        self._given = schema
        self._places = [place for place, type_ in enumerate(schema.types) if _is_text(type_)]
        self._known: dict[int, pa.Array] = {place: pa.array([], pa.string()) for place in self._places}
        self.schema = pa.schema([field.with_type(pa.int32()) if _is_text(field.type) else field for field in schema])
        """The rows with numbers."""

    def numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with numbers for texts.

        Raises:
            TooManyTextsError: there are too many different ones.
        """
        columns = batch.columns
        for place in self._places:
            columns[place] = self._numbers(place, columns[place])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def texts(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Numbered rows as they came, without columns that were added behind; all dictionaries are the same."""
        columns = batch.columns[: len(self._given)]
        for place in self._places:
            columns[place] = pa.DictionaryArray.from_arrays(columns[place], self._known[place])
        return pa.RecordBatch.from_arrays(columns, schema=self._given)

    def _numbers(self, place: int, column: pa.DictionaryArray) -> pa.Array:
        found = pc.index_in(column.dictionary, value_set=self._known[place])
        if found.null_count:
            new = pc.unique(column.dictionary.filter(found.is_null()))
            known = pa.concat_arrays([self._known[place], new])
            if len(known) > MOST_VALUES or known.nbytes > _MOST_BYTES:
                raise TooManyTextsError
            self._known[place] = known
            found = pc.index_in(column.dictionary, value_set=known)
        return found.take(column.indices)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(type_) and pa.types.is_string(type_.value_type))
