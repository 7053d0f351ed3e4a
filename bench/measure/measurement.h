// What every benchmark says of its figures: the median of the rounds, and how busy the machine was.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <vector>

namespace lockstep {

/// The middle of `values`, of which there is at least one; the upper one of two.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The machine's load of the last minute; -1 where it is not known.
inline double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : -1;
}

}  // namespace lockstep
