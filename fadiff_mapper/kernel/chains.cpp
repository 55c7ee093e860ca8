#include "chains.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace fadiff {

// Of relaxation/objective.py: keeps the logarithm of a metric finite where it is 0; above the value of every legal one.
constexpr double TINY = 1e-30, ILLEGAL = 1e6;

// Values (logarithms of the metric) that differ by less are those of equally good mappings: far above the rounding of
// doubles, far below a word more or less. Nothing was measured.
constexpr double SAME = 1e-9;

// Rounds between two looks at whether the chains agree. Halved together with the number of rounds (10 of 120 before), so
// that there are equally many looks; nothing else was measured.
constexpr int LOOK_EVERY = 5;

// A neighbour has to be better by more than this (in logarithms of the metric) for the last descent to go there, so
// that it cannot circle among mappings that differ by rounding alone.
constexpr double LEAST_DESCENT = 1e-12;

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Objective::value(const Scores& scores) const {
    if (!scores.legal) return ILLEGAL + scores.excess;
    double sum = 0;
    for (const Term& term : terms) {
        const double quantity = term.quantity == EDP ? scores.cycles * scores.energy : term.quantity == ENERGY ? scores.energy
                                : term.quantity == DELAY ? scores.cycles : scores.last_level_accesses;
        sum += term.weight * std::log(quantity + TINY);
    }
    return std::isnan(sum) ? ILLEGAL : sum;
}

Chains::Chains(const Layer& layer, MapSpace space, Objective objective, std::optional<Room> room, std::uint64_t seed)
    : layer_(layer), space_(std::move(space)), objective_(std::move(objective)), room_(std::move(room)), random_(seed),
      work_(layer_), best_value_(std::numeric_limits<double>::infinity()), start_(now()) {}

void Chains::evaluate_points(const Point* const* points, int count, Stage stage, double* values) {
    const Mapping* mappings[LANES];
    const Room* rooms[LANES];
    for (int i = 0; i < count; ++i) mappings[i] = &points[i]->mapping, rooms[i] = room_ ? &*room_ : nullptr;
    Scores scores[LANES];
    evaluate(layer_, mappings, room_ ? rooms : nullptr, count, false, work_, scores);
    for (int i = 0; i < count; ++i) {
        double value = objective_.value(scores[i]);
        if (space_.min_parallelism > 0) {  // as for every broken limit the value grows with the octaves that are missing
            double share = 1 / space_.available;
            for (int level = 0; level < layer_.levels; ++level) share *= work_.tiles.fan[level][i];
            if (share < space_.min_parallelism)
                value = std::max(value, ILLEGAL + std::log2(space_.min_parallelism / share));
        }
        values[i] = value;
        ++evaluations_;
        if (value >= best_value_) continue;
        if (best_) *best_ = *points[i];
        else best_ = *points[i];
        best_value_ = value;
        history_.push_back({now() - start_, evaluations_, value, stage});
    }
}

void Chains::add(Point point) {
    const Point* one = &point;
    double value;
    evaluate_points(&one, 1, START, &value);
    chains_.push_back({std::move(point), value, value});
}

void Chains::start_random(int count) {
    for (int i = 0; i < count; ++i) {
        Point point(layer_);
        draw_point(layer_, space_, int(chains_.size()), random_, point);
        add(std::move(point));
    }
}

void Chains::start_at(const Mapping& mapping) { add(point_of(layer_, space_, mapping)); }

void Chains::begin(const Annealing& plan) {
    plan_ = plan;
    round_ = 0;
    agreed_ = false;
    while (near_.size() < LANES) near_.emplace_back(layer_);
    for (Chain& chain : chains_) chain.lowest = chain.value;
}

// One move of a chain. The neighbour tried with the lowest value + temperature * noise is picked, with Gumbel noise in
// proportion to exp(-value / temperature); a pick that is worse is taken with the probability exp(-rise / temperature).
void Chains::step(Chain& chain, double temperature) {
    const double infinite = std::numeric_limits<double>::infinity();
    double lowest = infinite, picked = infinite;
    bool some = false;
    for (int tried = 0; tried < plan_.tries;) {
        const Point* points[LANES];
        double values[LANES];
        int count = 0;
        for (; tried < plan_.tries && count < LANES; ++tried)
            if (move(layer_, space_, chain.point, random_, near_[count])) points[count] = &near_[count], ++count;
        if (!count) break;
        evaluate_points(points, count, REFINE, values);
        for (int i = 0; i < count; ++i) {
            const double noise = plan_.greedy ? 0 : -std::log(-std::log(random_.uniform() + TINY) + TINY);
            const double rank = values[i] - temperature * noise;
            if (some && rank >= lowest) continue;
            lowest = rank;
            picked = values[i];
            some = true;
            picked_ = near_[i];
        }
    }
    if (!some) return;
    const double rise = std::max(picked - chain.value, 0.0);
    if (random_.uniform() < std::exp(-rise / temperature)) {
        std::swap(chain.point, *picked_);
        chain.value = picked;
        chain.lowest = std::min(chain.lowest, picked);
    }
}

bool Chains::anneal(int rounds) {
    for (const int end = std::min(round_ + rounds, plan_.rounds); round_ < end;) {
        const double ratio = double(round_) / std::max(plan_.rounds - 1, 1);
        const double temperature = plan_.temperature_start * std::pow(plan_.temperature_end / plan_.temperature_start, ratio);
        for (Chain& chain : chains_) step(chain, temperature);
        ++round_;
        if (round_ != plan_.rounds && (round_ % LOOK_EVERY || round_ < plan_.rounds_least)) continue;
        const auto met = std::count_if(chains_.begin(), chains_.end(),
                                       [&](const Chain& chain) { return chain.lowest <= best_value_ + SAME; });
        if (met >= plan_.chains_agreeing) return agreed_ = true;
    }
    return round_ >= plan_.rounds;
}

void Chains::keep_strongest(int count) {
    std::stable_sort(chains_.begin(), chains_.end(), [](const Chain& a, const Chain& b) { return a.value < b.value; });
    count = std::max(count, 0);
    if (int(chains_.size()) > count) chains_.erase(chains_.begin() + count, chains_.end());
}

const Point& Chains::best_point() const {
    if (!best_) throw std::invalid_argument("no chain has started");
    return *best_;
}

bool Chains::polish(int steps) {
    while (near_.size() < LANES) near_.emplace_back(layer_);
    const Point* points[LANES];
    double values[LANES];
    for (int i = 0; i < LANES; ++i) points[i] = &near_[i];
    for (int step = 0; step < steps; ++step) {
        const double before = best_value_;
        const Point from = best_point();
        int count = 0;
        each_neighbour(layer_, space_, from, random_, [&](const Point& point) {
            near_[count++] = point;
            if (count == LANES) evaluate_points(points, std::exchange(count, 0), POLISH, values);
        });
        if (count) evaluate_points(points, count, POLISH, values);
        if (!(best_value_ < before - LEAST_DESCENT)) return true;
    }
    return false;
}

}  // namespace fadiff
