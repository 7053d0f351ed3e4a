#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/detail/safetensors/safetensors_header.h"

namespace lockstep {

/// Tensors by name, in an order that the creator of the list chooses.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// A safetensors file, mapped into memory and checked when it is opened; its data is read from disk on first access. A
/// small file (under 16 MiB) is read at once.
///
/// Copies share the memory. Reading is thread-safe. A mapped file must not be shortened. (This library replaces files
/// by renaming, which is safe.) `tensor` checks the length. If a file is shortened later, the missing part reads as
/// zeros, one line on standard error names the file, and `require_whole` throws.
/// Format: https://github.com/huggingface/safetensors#format
class SafetensorsFile {
 public:
  /// @throws Error  if the file cannot be read, or its header is refused (see parse_safetensors_header)
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const;
  /// In the order of their data.
  const std::vector<SafetensorsEntry>& entries() const;
  const std::map<std::string, std::string>& metadata() const;
  bool contains(const std::string& name) const;
  /// @throws Error  if there is no such tensor
  const SafetensorsEntry& entry(const std::string& name) const;

  /// The tensor on the CPU. It lies in the mapping, which lives as long as any of its tensors; a write to it changes a
  /// private copy of the page and never the file. If the data is not aligned for its type, the tensor is a copy
  /// instead.
  /// @throws Error  if the tensor does not exist, LibTorch does not have its dtype, or the file was shortened
  at::Tensor tensor(const std::string& name) const;
  /// For after tensors were read. @throws Error  if the file was shortened, or could not be read everywhere
  void require_whole() const;

 private:
  struct Opened;

  std::shared_ptr<const Opened> opened_;
};

/// LibTorch's dtype for a name of the format ("F32"), or nothing if this LibTorch does not have it.
std::optional<at::ScalarType> dtype_of_safetensors(std::string_view name);
/// The format's name for a dtype, or nothing if the format does not have it.
std::optional<std::string> safetensors_dtype(at::ScalarType dtype);

/// A safetensors file that is about to be written: its bytes, piece by piece. The bytes equal those of Hugging Face's
/// writer for the same tensors. Tensors that share memory are each written in full.
class SafetensorsStream {
 public:
  /// Reads names, dtypes and sizes; `write` reads the elements.
  /// @param path  named in errors
  /// @param metadata  strings of "__metadata__"; Hugging Face's loader requires "format" to be "pt"
  /// @throws Error  if a name is given twice, or a dtype is not in the format
  SafetensorsStream(const std::string& path, const NamedTensors& tensors,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  std::uint64_t size_bytes() const { return prefix_.size() + data_bytes_; }
  /// Passes the file to `sink`, tensor by tensor; at most one tensor is copied at a time (from a device, or to make it
  /// contiguous). A piece is valid only during its call.
  void write(const std::function<void(std::string_view)>& sink) const;

 private:
  std::vector<at::Tensor> tensors_;  // in the file's order
  std::string prefix_;               // length and header
  std::uint64_t data_bytes_ = 0;
};

/// Writes a SafetensorsStream to a file beside `path`, syncs it, and renames it to `path`.
/// @throws Error  as SafetensorsStream, or if the file cannot be written
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace lockstep
