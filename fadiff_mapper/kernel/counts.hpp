// Timeloop's unsigned whole numbers, of eight mappings: a negative number is stored as itself plus 2^64.

#pragma once

#include "lanes.hpp"

namespace fadiff {

using Count = std::uint64_t;

inline namespace FADIFF_LANES {

typedef Count Wholes __attribute__((vector_size(VECTOR_BYTES)));

struct Counts : Parts<Wholes> {
    Counts() = default;  // nothing in particular, as of a plain number
    Counts(Count value) {
        for (Wholes& part : parts) part = Wholes{} + value;
    }
    Count operator[](int lane) const { return parts[lane / WIDTH][lane % WIDTH]; }
    void set(int lane, Count value) { parts[lane / WIDTH][lane % WIDTH] = value; }
};

inline Counts operator+(Counts a, Counts b) { return each_part<Counts>([&](int i) { return a.parts[i] + b.parts[i]; }); }
inline Counts operator-(Counts a, Counts b) { return each_part<Counts>([&](int i) { return a.parts[i] - b.parts[i]; }); }
inline Counts operator*(Counts a, Count b) { return each_part<Counts>([&](int i) { return a.parts[i] * b; }); }
inline Mask operator!=(Counts a, Count b) { return each_part<Mask>([&](int i) { return Bits(a.parts[i] != b); }); }
inline Mask operator>=(Counts a, Count b) { return each_part<Mask>([&](int i) { return Bits(a.parts[i] >= b); }); }
// `value` where the mask is true, else 0.
inline Counts where(Mask mask, Counts value) {
    return each_part<Counts>([&](int i) { return value.parts[i] & Wholes(mask.parts[i]); });
}
inline Counts select(Mask mask, Counts yes, Counts no) {
    return each_part<Counts>([&](int i) { return mask.parts[i] ? yes.parts[i] : no.parts[i]; });
}

inline Lanes rounded(Counts value) {
    return each_part<Lanes>([&](int i) { return __builtin_convertvector(value.parts[i], Doubles); });
}

constexpr Count EXACT = Count(1) << 53;  // below it whole numbers are exact as doubles, and a rounded quotient is whole
                                         // only if the quotient is
// Quotients by a whole number, rounded up or down.
inline Lanes divided_up(Counts value, Count by) {
    if (by == 1) return rounded(value);
    if (!(value >= EXACT).any()) return ceil(rounded(value) / double(by));
    return lanes_of([&](int lane) { return double(value[lane] / by + (value[lane] % by != 0)); });
}
inline Counts divided_down(Counts value, Count by) {
    Counts result;
    for (int lane = 0; lane < LANES; ++lane) result.set(lane, value[lane] / by);
    return result;
}

// Doubles converted to unsigned whole numbers, as compilers do. Numbers that are not finite become 0 and `undefined`.
inline Counts truncated(Lanes value, Mask& undefined) {
    if ((absolute(value) < 0x1p63).all())
        return each_part<Counts>([&](int i) { return Wholes(__builtin_convertvector(value.parts[i], Bits)); });
    const auto single = [&](double one) {
        if (std::abs(one) < 0x1p63) return Count(std::int64_t(one));
        const double rest = std::fmod(std::trunc(one), 0x1p64);  // beyond 2^53 doubles are multiples of large powers of 2
        return rest < 0 ? Count(0) - Count(-rest) : Count(rest);
    };
    const Mask finite = each_part<Mask>([&](int i) { return Bits(value.parts[i] - value.parts[i] == 0.0); });
    undefined = undefined | !finite;
    const Lanes given = where(finite, value);
    Counts result;
    for (int lane = 0; lane < LANES; ++lane) result.set(lane, single(given[lane]));
    return result;
}

}  // namespace FADIFF_LANES
}  // namespace fadiff
