#pragma once

#include <memory>
#include <nlohmann/json.hpp>

namespace lockstep {

/// The time that LibTorch's operators take in this thread while an object of this class records: matrix products by
/// their sizes, and all others by their names. One object at a time.
class OperatorProfile {
 public:
  OperatorProfile();  ///< begins to record
  ~OperatorProfile();
  OperatorProfile(const OperatorProfile&) = delete;
  OperatorProfile& operator=(const OperatorProfile&) = delete;

  void stop();
  /// What was recorded, for each of `steps` equal steps that took `step_ms` each; then every product alone, several
  /// times over on the same operands: the best that the library does for this step. Call it after `stop`.
  ///
  /// {"step_ms", "products_ms", "alone_ms", "gflop", "products": [{"size", "calls", "ms", "alone_ms", "gflop"}],
  /// "others": [{"name", "calls", "ms"}]}, the longest first. A size is rows x inner x columns, of so many matrices if
  /// there is a batch. "others" ends with the time outside of operators, which has no calls.
  nlohmann::ordered_json report(int steps, double step_ms) const;

 private:
  class Recorder;
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace lockstep
