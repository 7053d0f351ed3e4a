#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct ChartTick {
  double value = 0;
  std::string text;
};

/// Where the values of one side of a chart lie in the picture: from `begin` to `end`, in its units.
class ChartAxis {
 public:
  /// Over the finite ones of `values`, with ticks at 1, 2 or 5 times a power of ten.
  static ChartAxis linear(const std::vector<double>& values, double begin, double end);
  /// Logarithmic, from one power of ten to another, with a tick at each. Values that are not finite and positive have
  /// no place.
  static ChartAxis decades(const std::vector<double>& values, double begin, double end);
  /// Logarithmic, a little wider than the values, with a tick at each value. Other values have no place, as above.
  static ChartAxis at_values(const std::vector<double>& values, double begin, double end);

  /// Whether the value can be drawn.
  bool has_place(double value) const;
  /// Where it lies. @param value  has a place
  double at(double value) const;
  double begin() const { return begin_; }
  double end() const { return end_; }
  const std::vector<ChartTick>& ticks() const { return ticks_; }

 private:
  ChartAxis(bool is_logarithmic, double low, double high, double begin, double end);

  bool is_logarithmic_;
  double low_;   // logarithmic: log10 of the value
  double high_;  // as low_
  double begin_;
  double end_;
  std::vector<ChartTick> ticks_;
};

}  // namespace lockstep
