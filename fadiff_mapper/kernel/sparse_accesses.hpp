// Accesses that happen, are gated, or are skipped: the compiled form of sparse/saved_accesses.py, for eight mappings at
// once.
//
// Lanes in which Timeloop ends on an assertion, or in which its numbers are undefined, are marked as `aborted`.

#pragma once

#include "counts.hpp"
#include "evaluate.hpp"
#include "sparse_savings.hpp"

namespace fadiff::sparse {

struct UnitCounts {
    Counts metadata, payload;
};

// Accesses of one kind, and those of the metadata of every rank that the format has.
struct AccessCounts {
    Counts words;
    UnitCounts units[MOST_RANKS];
};

// A tile's accesses: those that happen, part 0, and, at a level that saves some, those that it saves, part 1.
struct TileAccesses {
    AccessCounts of[ACCESSES][2];
    unsigned saving;                  // lanes that save some, a bit each; without any there is no part 1
    Mask gated;                       // lanes in which the accesses of part 1 are gated; in others they are skipped
    Counts compressions, decompressions;

    int parts() const { return saving ? 2 : 1; }
    Counts busy(Access access) const {
        const Counts happening = of[access][0].words;
        return saving ? happening + where(gated, of[access][1].words) : happening;
    }
};

// The tiles of eight mappings on their way through an evaluation.
struct SparseTiles {
    std::vector<MappedTiles> mapped;         // [LANES]
    std::vector<Occupancies> occupancies;    // [L][T]
    std::vector<Savings> savings;            // [L][T]
    std::vector<unsigned> kept;              // [L][T]; lanes that keep a tile, a bit each
};

// The accesses to one data space at all levels [L]; `dense` are those on a dense design.
void save_accesses(const SparseDesign& design, const SparseTiles& tiles, const Workspace& dense, int tensor,
                   TileAccesses* accesses, Mask& aborted);

}  // namespace fadiff::sparse
