"""First fit in two measures: where is the first bin with room for so many bytes and so many rows?"""

from __future__ import annotations


class Bins:
    """Bins of one capacity, filled in order; finding a place takes about log(bins) steps.

    First fit has the property that planning relies on: no two of the bins it makes fit into one. So packing its
    bins again, in any order, moves nothing.

    Example:
        >>> bins = Bins(bytes_each=10, rows_each=100, most=3)
        >>> [bins.place(size, 1) for size in (6, 7, 4, 3)]
        [0, 1, 0, 1]
    """

    def __init__(self, *, bytes_each: int, rows_each: int, most: int) -> None:
        self._leaves = 1 << max(0, most - 1).bit_length()
        # A heap-shaped tree over the bins, each node the most room of those below it. Unused bins have full room.
        self._bytes = [bytes_each] * (2 * self._leaves)
        self._rows = [rows_each] * (2 * self._leaves)

    def place(self, size_bytes: int, rows: int) -> int:
        """Puts an item that fits into an empty bin into the first bin with room, and returns the bin's number."""
        node = self._find(size_bytes, rows)
        found = node - self._leaves
        self._bytes[node] -= size_bytes
        self._rows[node] -= rows
        while node > 1:
            node //= 2
            most_bytes = max(self._bytes[2 * node], self._bytes[2 * node + 1])
            most_rows = max(self._rows[2 * node], self._rows[2 * node + 1])
            if most_bytes == self._bytes[node] and most_rows == self._rows[node]:
                break  # and so nothing changes further up
            self._bytes[node], self._rows[node] = most_bytes, most_rows
        return found

    def _find(self, size_bytes: int, rows: int) -> int:
        waiting = [1]
        while waiting:
            node = waiting.pop()
            if self._bytes[node] < size_bytes or self._rows[node] < rows:
                continue
            if node >= self._leaves:
                return node
            # A node may have room for the bytes in one bin and for the rows in another, hence the way back.
            waiting += (2 * node + 1, 2 * node)
        raise ValueError(f"no bin holds {size_bytes} bytes and {rows} rows")
