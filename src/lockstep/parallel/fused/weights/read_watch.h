#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/comm/transient_memory.h"

namespace lockstep {

/// Is told before elements of watched parameters are read. Called in the thread that reads.
class ReadWatcher {
 public:
  virtual ~ReadWatcher() = default;
  /// What has this element of a watched memory: the watcher's own number of a parameter.
  virtual std::size_t parameter_at(std::size_t memory, std::int64_t element) const = 0;
  /// LibTorch is about to read the parameter, or a view of it. When it returns, the parameter is in memory, and stays
  /// there until `end_read`. @throws Error  if that cannot be
  virtual void begin_read(std::size_t parameter) = 0;
  virtual void end_read(std::size_t parameter) noexcept = 0;
};

/// The memory of parameters that are there at times only. Its addresses stay; closed, it takes no memory, and a read by
/// address ends the process.
///
/// Tensors that `view` makes, and all views that LibTorch makes of them, carry a dispatch key, with which LibTorch
/// calls a fallback before each of its operations on such a tensor, in forward and in backward, where autograd has
/// saved it. The fallback asks the watcher. Tensors without the key cost nothing.
class WatchedMemory {
 public:
  /// @param number  what the watcher knows it by
  /// @throws Error  if the process may map no more memory
  WatchedMemory(ReadWatcher& watcher, std::size_t number, std::int64_t numel, at::ScalarType dtype);
  /// With memory that all ranks of this host have once. What this rank's program writes to tensors, the others do not
  /// see.
  WatchedMemory(ReadWatcher& watcher, std::size_t number, TransientMemory of_host);
  /// The addresses stay as long as tensors have them. An operation that reads such a tensor is an Error from then on.
  ~WatchedMemory();
  WatchedMemory(const WatchedMemory&) = delete;
  WatchedMemory& operator=(const WatchedMemory&) = delete;

  /// All elements, as this rank's program has them; not watched.
  const at::Tensor& whole() const { return whole_; }
  std::byte* data() const { return static_cast<std::byte*>(whole_.data_ptr()); }
  /// The memory into which a collective gathers them.
  const at::Tensor& incoming() const { return of_host_.leave ? of_host_.memory : whole_; }
  /// A watched tensor with these elements. @param like  has its sizes
  at::Tensor view(std::int64_t offset, const at::Tensor& like) const;
  /// The same with all elements, which are of the memory's type.
  at::Tensor view_of_all(const at::Tensor& like) const {
    return view(0, whole_.narrow(0, 0, like.numel()).view(like.sizes()));
  }
  bool is_open() const { return is_open_; }
  void open();   ///< elements are unspecified until they were gathered
  void close();  ///< gives the pages back to the kernel; if the host has one copy, its last rank does

  struct Range;

 private:
  void watch(ReadWatcher& watcher, std::size_t number, std::int64_t numel, at::ScalarType dtype, int file);

  std::shared_ptr<Range> range_;
  at::Tensor whole_;
  TransientMemory of_host_;  // empty if this rank gathers for itself
  bool is_open_ = false;
};

/// A watched tensor without memory: sizes alone. What asks for its address gets LibTorch's own error.
at::Tensor watched_without_memory(const at::Tensor& like);
/// Whether the tensor is watched.
bool is_watched(const at::Tensor& tensor);
/// Whether it is watched and has no memory.
bool is_absent(const at::Tensor& tensor);
/// Whether `parameter` has become `content`, or a copy of that tensor's handle: they have one storage.
bool has_become(const at::Tensor& parameter, const at::Tensor& content);
/// Lets the parameter be `content` from now on, as set_data does.
void become(const at::Tensor& parameter, const at::Tensor& content);

/// Says who watches parameters while they have no memory.
class WatchedParameters {
 public:
  void add(const at::Tensor& parameter, ReadWatcher& watcher, std::size_t index);
  ~WatchedParameters();
  WatchedParameters() = default;
  WatchedParameters(const WatchedParameters&) = delete;
  WatchedParameters& operator=(const WatchedParameters&) = delete;

 private:
  std::vector<at::Tensor> parameters_;
};

}  // namespace lockstep
