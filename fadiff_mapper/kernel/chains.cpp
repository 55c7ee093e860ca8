#include "chains.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

namespace fadiff {

// Rounds between two looks at whether the chains agree; set by hand together with the number of rounds.
constexpr int LOOK_EVERY = 5;

// A neighbour has to be better by more than this (in logarithms of the metric) for the last descent to go there, so
// that it cannot circle among mappings that differ by rounding alone.
constexpr double LEAST_DESCENT = 1e-12;

// Above all Gumbel noise of a double in [0, 1), which ends at -log(-log(1 - 2^-53)) = 36.7.
constexpr double MOST_NOISE = 37;

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Objective::value(const Scores& scores) const {
    if (!scores.legal) return ILLEGAL + scores.excess;
    double sum = 0;
    for (const auto& [weight, metric] : terms)
        sum += weight * std::log(metric_of(metric, scores.energy, scores.cycles, scores.last_level_accesses, price) + TINY);
    return std::isnan(sum) ? ILLEGAL : sum;
}

Chains::Chains(const Layer& layer, MapSpace space, Objective objective, const RoomColumns& room, std::uint64_t seed,
               std::shared_ptr<const sparse::SparseDesign> design, std::optional<Correction> correction, double seconds)
    : layer_(layer), space_(std::move(space)), objective_(std::move(objective)), random_(seed),
      evaluator_(layer_, space_.residual(), std::move(design), std::move(correction)), near_(layer_), changes_(LANES),
      best_value_(std::numeric_limits<double>::infinity()), start_(now()), deadline_(start_ + seconds) {
    if (!room.words) return;
    room_.emplace(layer_);
    for (int lane = 0; lane < LANES; ++lane) lay_room(room, 0, lane, *room_);
}

bool Chains::late() const { return now() >= deadline_; }

template <typename Assign>
void Chains::evaluate_pack(Stage stage, double* values, Assign assign) {
    Scores scores[LANES], unrounded[LANES];
    evaluator_.evaluate(room_ ? &*room_ : nullptr, 0, scores, unrounded);
    for (int i = 0; i < work_.pack.count; ++i) {
        double value = objective_.value(scores[i]);
        // By Timeloop's numbers alone the best mapping would be the one that its rounding takes most from.
        if (space_.residual()) value = std::max(value, objective_.value(unrounded[i])) + std::log(scores[i].forgotten);
        if (space_.min_parallelism > 0) {  // as for every broken limit the value grows with the octaves that are missing
            double share = 1 / space_.available;
            for (int level = 0; level < layer_.levels; ++level) share *= work_.tiles.fan[level][i];
            if (share < space_.min_parallelism)
                value = std::max(value, ILLEGAL + std::log2(space_.min_parallelism / share));
        }
        values[i] = value;
        ++evaluations_;
        legal_evaluations_ += value < ILLEGAL;
        if (value >= best_value_) continue;
        if (!best_) best_.emplace(layer_);
        assign(i, *best_);
        best_value_ = value;
        history_.push_back({now() - start_, evaluations_, legal_evaluations_, value, stage});
    }
}

// Lays the decisions that tell a neighbour from another point into one lane, as they stand in a mapping.
static void lay_changed(const Layer& layer, const Mapping& mapping, const Changes& changes, int lane, MappingPack& pack) {
    for (const Change& change : changes) switch (change.kind) {
        case Change::FACTOR: lay_factor(layer, mapping, change.at, change.of, lane, pack); break;
        case Change::ORDER: lay_order(layer, mapping, change.at, lane, pack); break;
        case Change::LAYOUT: lay_layout(layer, mapping, change.at, lane, pack); break;
        case Change::KEEP: lay_keep(layer, mapping, change.of, lane, pack);
    }
}

void Chains::evaluate_neighbours(const Point& from, int count, Stage stage, double* values) {
    work_.pack.count = count;
    evaluate_pack(stage, values, [&](int lane, Point& best) {
        best = from;
        apply(space_, changes_[lane], best);
    });
    for (int lane = 0; lane < count; ++lane) lay_changed(layer_, from.mapping, changes_[lane], lane, work_.pack);
    work_.pack.looping = from.mapping.looping;
}

void Chains::add(std::vector<Point> points) {
    double values[LANES];
    const Mapping* mappings[LANES];
    for (std::size_t lane = 0; lane < points.size(); ++lane) mappings[lane] = &points[lane].mapping;
    pack_mappings(layer_, mappings, int(points.size()), work_.pack);
    evaluate_pack(START, values, [&](int lane, Point& best) { best = points[lane]; });
    for (std::size_t lane = 0; lane < points.size(); ++lane)
        chains_.push_back({std::move(points[lane]), values[lane], values[lane]});
}

void Chains::start_random(int count) {
    for (int first = 0; first < count && !(first && late()); first += LANES) {
        std::vector<Point> points(std::size_t(std::min(LANES, count - first)), Point(layer_));
        for (std::size_t i = 0; i < points.size(); ++i)
            draw_point(layer_, space_, int(chains_.size() + i), random_, points[i]);
        add(std::move(points));
    }
}

void Chains::start_at(const Mapping& mapping) { add({point_of(layer_, space_, mapping)}); }

void Chains::begin(const Annealing& plan) {
    plan_ = plan;
    round_ = 0;
    agreed_ = false;
    for (Chain& chain : chains_) chain.lowest = chain.value;
}

bool Chains::draw_neighbour(const Chain& chain, Changes& changes) {
    if (!(plan_.crossover_rate > 0 && random_.uniform() < plan_.crossover_rate))
        return move(layer_, space_, chain.point, plan_.resplit_rate, random_, near_, changes);
    const Chain& other = chains_[random_.below(int(chains_.size()))];
    return adopt(layer_, space_, chain.point, other.point, random_, near_, changes);
}

// One move of a chain. The neighbour tried with the lowest value + temperature * noise is picked, with Gumbel noise in
// proportion to exp(-value / temperature); a pick that is worse is taken with the probability exp(-rise / temperature).
void Chains::step(Chain& chain, double temperature) {
    double lowest = std::numeric_limits<double>::infinity(), picked = lowest;
    bool some = false;
    near_ = chain.point;
    pack_mapping(layer_, chain.point.mapping, work_.pack);
    for (int tried = 0; tried < plan_.tries && !late();) {
        double values[LANES];
        int count = 0;
        for (; tried < plan_.tries && count < LANES; ++tried) {
            Changes& changes = changes_[count];
            if (draw_neighbour(chain, changes))
                lay_changed(layer_, near_.mapping, changes, count++, work_.pack);
            take_back(space_, chain.point, changes, near_);
        }
        if (!count) break;
        evaluate_neighbours(chain.point, count, REFINE, values);
        for (int i = 0; i < count; ++i) {
            const double chance = plan_.greedy ? 0 : random_.uniform();
            if (some && values[i] - temperature * MOST_NOISE >= lowest) continue;  // most neighbours: spares their noise
            const double noise = plan_.greedy ? 0 : -std::log(-std::log(chance + TINY) + TINY);
            const double rank = values[i] - temperature * noise;
            if (some && rank >= lowest) continue;
            lowest = rank;
            picked = values[i];
            some = true;
            picked_ = changes_[i];
        }
    }
    if (!some) return;
    const double rise = std::max(picked - chain.value, 0.0);
    if (random_.uniform() < std::exp(-rise / temperature)) {
        apply(space_, picked_, chain.point);
        chain.value = picked;
        chain.lowest = std::min(chain.lowest, picked);
    }
}

bool Chains::anneal(int rounds) {
    for (const int end = std::min(round_ + rounds, plan_.rounds); round_ < end;) {
        const double ratio = double(round_) / std::max(plan_.rounds - 1, 1);
        const double temperature = plan_.temperature_start * std::pow(plan_.temperature_end / plan_.temperature_start, ratio);
        for (Chain& chain : chains_) step(chain, temperature);
        if (late()) return true;
        ++round_;
        if (round_ != plan_.rounds && (round_ % LOOK_EVERY || round_ < plan_.rounds_least)) continue;
        if (met() >= plan_.chains_agreeing) return agreed_ = true;
    }
    return round_ >= plan_.rounds;
}

int Chains::met() const {
    return int(std::count_if(chains_.begin(), chains_.end(),
                             [&](const Chain& chain) { return chain.lowest <= best_value_ + SAME; }));
}

void Chains::keep_strongest(int count) {
    std::stable_sort(chains_.begin(), chains_.end(), [](const Chain& a, const Chain& b) { return a.value < b.value; });
    std::vector<Chain> unlike, copies;
    for (Chain& chain : chains_)
        (unlike.empty() || chain.value > unlike.back().value + SAME ? unlike : copies).push_back(std::move(chain));
    std::move(copies.begin(), copies.end(), std::back_inserter(unlike));
    count = std::max(count, 0);
    if (int(unlike.size()) > count) unlike.erase(unlike.begin() + count, unlike.end());
    chains_ = std::move(unlike);
}

void Chains::start_again(int count) {
    chains_.clear();
    start_random(count);
}

const Point& Chains::best_point() const {
    if (!best_) throw std::invalid_argument("no chain has started");
    return *best_;
}

bool Chains::polish(int steps) {
    double values[LANES];
    for (int step = 0; step < steps; ++step) {
        const double before = best_value_;
        const Point from = best_point();
        near_ = from;
        pack_mapping(layer_, from.mapping, work_.pack);
        int count = 0;
        each_neighbour(layer_, space_, from, random_, [&](const Changes& changes) {
            if (!count && late()) return;
            apply(space_, changes, near_);
            lay_changed(layer_, near_.mapping, changes, count, work_.pack);
            take_back(space_, from, changes, near_);
            changes_[count++] = changes;
            if (count == LANES) evaluate_neighbours(from, std::exchange(count, 0), POLISH, values);
        });
        if (count) evaluate_neighbours(from, count, POLISH, values);
        if (late()) return false;
        if (!(best_value_ < before - LEAST_DESCENT)) return true;
    }
    return false;
}

}  // namespace fadiff
