#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// An operation that writes to a weight in place, as it was called, to be carried out later.
struct DeferredWrite {
  c10::OperatorHandle operation;
  std::vector<c10::IValue> arguments;  ///< without the first, which is the weight or a view of it
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;  ///< of what is written, in the weight's memory
  /// The place of a random generator among the operation's arguments, and the state that it had.
  std::optional<std::size_t> generator_place = {};
  at::Generator generator = {};
  std::vector<std::pair<at::Tensor, std::int64_t>> sources = {};  ///< what it reads, and their versions
};

/// A weight that is not in memory: what would be written to it.
class DeferredWeight {
 public:
  /// @param parameter  dense, on the CPU, with memory of its own
  explicit DeferredWeight(const at::Tensor& parameter);

  void add(DeferredWrite write) { writes_.push_back(std::move(write)); }
  bool reads(const c10::StorageImpl* storage) const;
  bool has_layout_of(const at::Tensor& parameter) const;

  /// The weight in memory of its own. Random numbers are those that the program would have had without deferring.
  /// @throws Error  if something that it reads has been changed since, or a mapped file was cut
  at::Tensor make();
  /// A number that differs, in all likelihood, between weights with different elements; set once it was made.
  const std::optional<std::uint64_t>& digest() const { return digest_; }
  /// Forgets the writes, and with them the files that they read.
  void forget() { writes_.clear(); }

  /// "normal_, fill_": equal on ranks that would make it in the same way.
  std::string text() const;
  /// The states of random generators, one for each write that draws.
  std::vector<at::Tensor> generator_states() const;
  /// @param states  as many as generator_states()
  void set_generator_states(const std::vector<at::Tensor>& states);

 private:
  std::vector<std::int64_t> sizes_, strides_;
  at::TensorOptions options_;
  std::vector<DeferredWrite> writes_;
  std::optional<std::uint64_t> digest_;
};

}  // namespace lockstep
