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

// Accesses of one kind, and those of the metadata of every rank that the format has.
struct AccessCounts {
    Count words;
    UnitCounts units[MOST_RANKS];
};

// A tile's accesses: those that happen, part 0, and, at a level that saves some, those that it saves, part 1.
struct TileAccesses {
    AccessCounts of[ACCESSES][2];
    Happening saving;                 // what happens to the accesses of part 1; ACTUAL: there are none
    Count compressions, decompressions;

    int parts() const { return saving == ACTUAL ? 1 : 2; }
    Happening happening(int part) const { return part ? saving : ACTUAL; }
    Count busy(Access access) const { return of[access][0].words + (saving == GATED ? of[access][1].words : 0); }
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
