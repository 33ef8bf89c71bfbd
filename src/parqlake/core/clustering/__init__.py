"""Clustering: rows laid out along a space-filling curve, so that statistics of files prune on several columns.

`RankModel` makes every column's values into ranks of equal frequency, `curves` interleave the ranks into one code,
`ranges` cuts the codes into files; `layout` and `overlap` say from the files' statistics how clustered they are
already, and `marks` note in their footers what laid them out.
"""

from parqlake.core.clustering.curves import Curve, curve_codes, hilbert_codes, morton_codes
from parqlake.core.clustering.layout import ColumnBounds, Layout
from parqlake.core.clustering.marks import clustering_mark, is_one_run
from parqlake.core.clustering.overlap import Spread, achievable, current, is_clustered, overlap_depth, overlaps
from parqlake.core.clustering.ranges import cut_codes, part_of
from parqlake.core.clustering.ranks import ColumnRanks, RankModel

__all__ = [
    "ColumnBounds",
    "ColumnRanks",
    "Curve",
    "Layout",
    "RankModel",
    "Spread",
    "achievable",
    "clustering_mark",
    "current",
    "curve_codes",
    "cut_codes",
    "hilbert_codes",
    "is_clustered",
    "is_one_run",
    "morton_codes",
    "overlap_depth",
    "overlaps",
    "part_of",
]
