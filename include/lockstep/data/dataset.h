#pragma once

#include <c10/util/ArrayRef.h>

#include <cstdint>

#include "lockstep/data/batch.h"

namespace lockstep {

/// A finite list of samples. Held by `std::shared_ptr<const Dataset>`: loaders and decorators share it.
///
/// The public calls may run on several threads at once, so an implementation must not change what it holds, and what
/// it returns must depend on the index alone: that keeps a run the same for any number of worker threads.
/// The idea of a tiny interface and decorators upon it is flashlight's (Kahn et al., 2022, arXiv:2201.12465).
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Number of samples.
  virtual std::int64_t size() const = 0;

  /// The sample `index`.
  /// @throws Error  if `index` is not in [0, size()), or the sample cannot be read: with file and line then
  Example get(std::int64_t index) const;

  /// The samples `indices` in that order; an index may come twice.
  /// Same result as `stack_examples` over `get`; datasets in memory gather all rows at once instead.
  /// @throws Error  as `get`, and where samples cannot be stacked
  Batch get_batch(at::IntArrayRef indices) const;

 private:  // indices are in range when these are called
  virtual Example do_get(std::int64_t index) const = 0;
  virtual Batch do_get_batch(at::IntArrayRef indices) const;
};

}  // namespace lockstep
