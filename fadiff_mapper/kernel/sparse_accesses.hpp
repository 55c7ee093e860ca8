// Accesses and computes that happen, are gated, or are skipped: the compiled form of sparse/saved_accesses.py and
// saved_computes.py.

#pragma once

#include "sparse_savings.hpp"

namespace fadiff::sparse {

using Count = std::uint64_t;  // Timeloop's whole numbers without sign: a negative one is 2^64 less

// Timeloop ends on an assertion, or its numbers are undefined.
struct Aborted {};

// A double as the compiler makes a whole number without sign of it.
Count unsigned_of(double value);

struct UnitCounts {
    Count metadata, payload;
};

// Accesses of one kind by what happens to them, and those of the metadata of every rank that the format has.
struct AccessSplit {
    Count words[HAPPENINGS];
    UnitCounts units[HAPPENINGS][MOST_RANKS];

    Count busy() const { return words[ACTUAL] + words[GATED]; }
};

struct TileAccesses {
    AccessSplit of[ACCESSES];
    Count compressions, decompressions;

    void clear(int ranks);
};

struct DenseCounts {
    double of[ACCESSES];
};

struct Computes {
    double actual = 0, gated = 0, skipped = 0;
};

// The accesses of one data space at all levels; throws `Aborted`.
//
// `accesses` [L]; `share` is the part of its accesses that its innermost saving level saves, negative without one.
void save_accesses(const SparseDesign& design, const MappedTiles& mapped, const std::vector<Occupancy>& occupancies,
                   const std::vector<Saving>& savings, const DenseCounts* counts, int tensor, TileAccesses* accesses,
                   double& share);

// The computes of the run; `shares` [T] as above. Throws `Aborted`.
Computes save_computes(const SparseDesign& design, const MappedTiles& mapped, const double* shares);

}  // namespace fadiff::sparse
