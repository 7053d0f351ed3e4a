#pragma once

#include <cstddef>
#include <functional>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/tensor_part.h"

namespace lockstep {

struct WeightChanges;

/// Where the weights of an update's buckets are: whole on each rank or host, or in shards. A parameter is named by its
/// bucket and its place there.
class WeightPlace {
 public:
  virtual ~WeightPlace() = default;
  /// The bucket's element 0, if its owned elements lay in a whole bucket: only these may be touched.
  virtual void* owned_weights(std::size_t bucket) const = 0;
  /// Whether the program has given the parameter other memory, or has written to it, which may do the same.
  virtual bool is_moved(std::size_t bucket, std::size_t place) const = 0;
  /// Takes what this rank has to write of a parameter that was moved, and its memory away.
  virtual void adopt(std::size_t bucket, std::size_t place) = 0;
  /// @throws AgreedError  if not all ranks have what the comparison of these changes needs. Collective
  virtual void check_comparable(const WeightChanges&) const {}
  /// The group in which the ranks agree before an update.
  virtual Communicator& meeting() const = 0;

  /// Frees what was gathered, before weights change, and finds what the program has written there. Not collective.
  virtual void free_all() {}
  /// The same without freeing it: a write that is found after a backward counts as written since. Not collective.
  virtual void take_writes() {}
  /// A backward, with all that it has called, is over.
  virtual void leave_backward() noexcept {}

  /// Gives this rank memory of its own for weights that ranks share. Not collective.
  virtual void move_to_own_memory() {}
  /// Lets `write` give new values to this rank's elements of weights in shards. Not collective.
  virtual void write_own_parts(const std::function<void(const TensorParts&)>&) {}
  /// Gives every parameter memory of its own with all elements. Collective.
  virtual void give_back() {}
  /// The update is in force no longer: this rank keeps what it has. Not collective.
  virtual void leave() {}
};

}  // namespace lockstep
