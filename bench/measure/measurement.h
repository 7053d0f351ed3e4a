// What every benchmark reports with its figures: the median of the rounds, and the load of the machine.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <vector>

namespace lockstep {

/// The middle element of `values`, which is not empty; the upper one of two.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The machine's load in the last minute; -1 if it is unknown.
inline double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : -1;
}

}  // namespace lockstep
