#include "density.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace fadiff::sparse {

using Whole = std::int64_t;

// A number of nonzeros further than sqrt(FARTHEST * draws) from its mean has a probability of at most exp(-2 * FARTHEST),
// 4e-44, by Hoeffding's inequality, which also holds for draws without replacement: no sum of doubles changes without it.
constexpr double FARTHEST = 50;

namespace {

// Tiles of a banded matrix, counted as Timeloop counts them.
struct BandTiles {
    Whole band, side, rows, columns;         // rows and columns of a tile
    Whole down = side / rows, across = side / columns;  // tiles below each other, and side by side

    BandTiles(const DensityModel& model, const Box& tile)
        : band(model.band_width), side(Whole(model.tensor.rows)), rows(Whole(tile.rows)), columns(Whole(tile.columns())) {}

    std::string size() const { return std::to_string(rows) + " x " + std::to_string(columns); }
    std::string matrix() const { return std::to_string(side) + " x " + std::to_string(side); }
    void check_division() const {
        if (side % rows || side % columns)
            throw Aborted("Timeloop aborts: tiles of " + size() + " words do not divide the banded matrix of " + matrix());
    }
    Whole warm_up() const { return (band + rows - 1) / rows; }  // the first rows of tiles, whose band is cut off at the left
    // Tiles of a row of tiles that do not lie to the right of the band.
    Whole reached(Whole row) const { return std::min((row * rows + rows - 1 + band) / columns + 1, across); }
    // Row r of the matrix has its nonzeros in the columns r - band to r + band, so min(max(x + band - r, 0), 2 band + 1) of
    // them lie left of the column x; summed over the rows of a tile that is a difference of two sums from 0 on.
    Whole nonzeros(Whole row, Whole column) const {
        const Whole width = 2 * band + 1;
        const auto up_to = [&](Whole most) {
            const Whole rising = std::clamp<Whole>(most, 0, width);
            return rising * (rising + 1) / 2 + std::max<Whole>(most - width, 0) * width;
        };
        const auto left_of = [&](Whole x) { return up_to(x + band - row * rows) - up_to(x + band - (row + 1) * rows); };
        return left_of((column + 1) * columns) - left_of(column * columns);
    }

    // Occupancies; 0 is listed first, even where no tile is empty. The first rows of tiles stand for the last ones, too,
    // and the first full row for all rows between.
    Histogram histogram() const {
        if (!down || !across)
            throw Aborted("a tile of " + size() + " words exceeds the banded matrix of " + matrix() + "; Timeloop divides by 0 here");
        const Whole steady = std::max<Whole>(down - 2 * warm_up(), 0);
        std::map<Whole, Whole> counts = {{0, 0}};
        for (Whole row = 0; row < std::min(warm_up() + 1, down); ++row) {
            const Whole weight = row >= warm_up() ? steady : warm_up() != down ? 2 : 1;
            counts[0] += (across - reached(row)) * weight;
            for (Whole column = 0; column < reached(row); ++column) counts[nonzeros(row, column)] += weight;
        }
        Histogram found;
        for (auto [occupancy, times] : counts) {
            found.occupancies.push_back(double(occupancy));
            found.probabilities.push_back(double(times) / double(down * across));
        }
        return found;
    }

    // Row and column of the corner of the first tile with this occupancy, row by row.
    std::pair<Whole, Whole> first_with(Whole occupancy) const {
        for (Whole row = 0; row < std::min(warm_up() + 1, down); ++row)
            for (Whole column = 0; column < across; ++column)
                if ((column < reached(row) ? nonzeros(row, column) : 0) == occupancy) return {row * rows, column * columns};
        throw Aborted("Timeloop aborts: it finds no tile of " + size() + " words with " + std::to_string(occupancy)
                      + " nonzeros in the banded matrix");
    }
};

// The share of empty tiles within the first tile `outer` that has this occupancy.
double band_empty_share(const DensityModel& model, const Box& tile, const Box& outer, double occupancy) {
    const BandTiles around(model, outer), inner(model, tile);
    around.check_division();
    const auto [top, left] = around.first_with(Whole(occupancy));
    inner.check_division();
    const Whole down = around.rows / inner.rows, across = around.columns / inner.columns;
    // Timeloop adds the corner of the outer tile twice to the lower corner of an inner one, and never to the upper one
    // beyond the offset: an inner tile is [2 * corner + offset, tile + corner + offset).
    if (top >= inner.rows || left >= inner.columns) return 1;
    Whole empty = down * across;
    for (Whole row = 0; row < down; ++row) {
        // Of a row of tiles those have nonzeros whose columns meet the bands of the rows [low, high).
        const Whole low = 2 * top + inner.rows * row, high = low - top + inner.rows;
        const auto floored = [](Whole a, Whole b) { return a >= 0 ? a / b : -((b - 1 - a) / b); };
        const Whole first = std::max<Whole>(-floored(left + inner.columns + model.band_width - low - 1, inner.columns), 0);
        const Whole last = std::min(floored(high - 1 + model.band_width - 2 * left, inner.columns), across - 1);
        empty -= std::max<Whole>(last - first + 1, 0);
    }
    return double(empty) / double(down * across);
}

double fixed_empty(double exact) { return exact < 1 ? 1 - exact : 0; }

// Drops occupancies without a probability.
Histogram possible(const Numbers& occupancies, const Numbers& probabilities) {
    Histogram kept;
    for (std::size_t i = 0; i < occupancies.size(); ++i)
        if (probabilities[i] != 0) {
            kept.occupancies.push_back(occupancies[i]);
            kept.probabilities.push_back(probabilities[i]);
        }
    return kept;
}

}  // namespace

Histogram DensityModel::histogram(const Box& tile) const {
    if (kind == FIXED) {
        const double exact = tile.words * density, below = std::floor(exact), share = exact - below;
        return possible({below, std::ceil(exact)}, {1 - share, share});
    }
    if (kind == BANDED) {
        const Histogram found = BandTiles(*this, tile).histogram();
        return possible(found.occupancies, found.probabilities);
    }
    const double draws = std::min(tile.words, nonzeros);
    const auto likely = double(Whole((__int128)(tile.words) * Whole(nonzeros) / Whole(tensor.words)));
    const double reach = std::floor(std::sqrt(FARTHEST * draws)) + 2;
    Numbers occupancies;
    for (double x = std::max({0.0, tile.words + nonzeros - tensor.words, likely - reach}); x <= std::min(draws, likely + reach); ++x)
        occupancies.push_back(x);
    return possible(occupancies, hypergeometric_pdf(occupancies, Numbers(occupancies.size(), nonzeros), tile.words, tensor.words));
}

double DensityModel::least(const Box& tile) const {
    if (kind == FIXED) return std::floor(std::floor(tile.words * density) / tile.words * tile.words);
    if (kind == BANDED || tile.words <= tensor.words - nonzeros) return 0;
    // Timeloop subtracts the tensor's words from the tile's in whole numbers of 64 bits without sign, so that the least
    // occupancy of a tile that cannot be empty is 0, or beyond all others, unless it is the whole tensor.
    const double missing = double(std::uint64_t(tile.words) - std::uint64_t(tensor.words)) + nonzeros;
    const double least = std::floor(missing / tile.words * tile.words);
    return least < 0x1p64 ? least : 0;
}

double DensityModel::most(const Box& tile) const {
    if (kind == FIXED) return std::ceil(tile.words * density);
    return kind == BANDED ? BandTiles(*this, tile).histogram().occupancies.back() : std::min(tile.words, nonzeros);
}

double DensityModel::expected(const Box& tile) const {
    if (kind == FIXED) return tile.words * density;
    if (kind == BANDED) {
        // The diagonal and 2 * (rows - d) on the d-th ones beside it; those beyond the matrix count as less than nothing.
        const double width = double(band_width), nonzeros = tensor.rows + 2 * tensor.rows * width - width * (width + 1);
        return tile.words * (nonzeros / (tensor.rows * tensor.rows));
    }
    const Histogram found = histogram(tile);
    double sum = 0;
    for (std::size_t i = 0; i < found.occupancies.size(); ++i) sum += found.probabilities[i] * found.occupancies[i];
    return sum;
}

double DensityModel::empty(const Box& tile) const {
    if (kind == FIXED) return fixed_empty(tile.words * density);
    if (kind == BANDED) return BandTiles(*this, tile).histogram().probabilities[0];
    return tile.words + nonzeros > tensor.words ? 0 : hypergeometric_pdf({0}, {nonzeros}, tile.words, tensor.words)[0];
}

Numbers DensityModel::empty_within(const Box& tile, const Box& outer, const Numbers& occupancies) const {
    Numbers result(occupancies.size()), marked;
    for (std::size_t i = 0; i < result.size(); ++i) {
        if (kind == FIXED) result[i] = fixed_empty(tile.words * (occupancies[i] / outer.words));
        if (kind == BANDED) result[i] = band_empty_share(*this, tile, outer, occupancies[i]);
        if (kind == HYPERGEOMETRIC && tile.words + occupancies[i] <= outer.words) marked.push_back(occupancies[i]);
    }
    const Numbers undrawn = hypergeometric_pdf(Numbers(marked.size()), marked, tile.words, outer.words);
    for (std::size_t i = 0, next = 0; next < undrawn.size(); ++i)
        if (tile.words + occupancies[i] <= outer.words) result[i] = undrawn[next++];
    return result;
}

double DensityModel::most_elements(const Box& fiber, const Box& element) const {
    if (std::fmod(fiber.words, element.words) != 0)
        throw Aborted("Timeloop aborts on this mapping: " + std::to_string(Whole(fiber.words))
                      + " words of a fan-out are no multiple of the " + std::to_string(Whole(element.words))
                      + " words of one instance, where instances are skipped");
    const double elements = fiber.words / element.words;
    // Timeloop multiplies with the share of empty elements.
    if (kind == BANDED) return std::ceil(elements * band_empty_share(*this, element, fiber, most(fiber)));
    return std::min(most(fiber), elements);
}

}  // namespace fadiff::sparse
