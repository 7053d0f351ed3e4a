#pragma once

#include <c10/util/ArrayRef.h>

#include <cstdint>

#include "lockstep/data/batch.h"

namespace lockstep {

/// A finite list of samples. Held by `std::shared_ptr<const Dataset>`: loaders and decorators share it.
///
/// The public calls may run on several threads at once, so an implementation must not change its state, and its results
/// must depend on the index alone: then a run is the same for any number of worker threads. The tiny interface with
/// decorators follows flashlight (Kahn et al., 2022, arXiv:2201.12465).
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Number of samples.
  virtual std::int64_t size() const = 0;

  /// The sample `index`.
  /// @throws Error  if `index` is not in [0, size()); with file and line, if the sample cannot be read
  Example get(std::int64_t index) const;

  /// The samples `indices` in that order; an index may occur twice. Returns what `stack_examples` over `get` returns;
  /// datasets in memory gather all rows at once instead.
  /// @throws Error  as `get`, and if samples cannot be stacked
  Batch get_batch(at::IntArrayRef indices) const;

  /// Writes a digest of each of the samples `indices`, by which processes see whether they have the same data: equal
  /// samples have equal digests in every process. It reads what the samples are made of in memory; what a function
  /// makes of them (TransformDataset) does not count.
  /// @return  false if the dataset has no such digest, and samples would have to be read; then nothing is written
  /// @throws Error  as `get`
  bool write_digests(at::IntArrayRef indices, std::uint64_t* digests) const;

 private:  // indices are in range when these are called
  virtual Example do_get(std::int64_t index) const = 0;
  virtual Batch do_get_batch(at::IntArrayRef indices) const;
  virtual bool do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const;
};

}  // namespace lockstep
