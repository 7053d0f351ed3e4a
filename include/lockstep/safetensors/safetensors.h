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

#include "lockstep/safetensors/safetensors_header.h"

namespace lockstep {

/// Tensors by name, in an order that matters to whoever made the list.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// A safetensors file, mapped into memory and checked when it is opened; data is read from disk when it is touched. A
/// small file (under 16 MiB) is read at once.
///
/// Copies share the memory. Reading is thread-safe. A mapped file must not be cut short (what this library writes is
/// replaced by renaming, so that is safe): `tensor` looks, but a tensor that was handed out before reads what is not
/// there any more, and the system ends the process (SIGBUS).
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

  /// The tensor on the CPU. It lies in the mapping, which lives as long as any of its tensors; writing to it changes
  /// a private copy of the page and never the file. Where the data is not aligned for its type, it is a copy instead.
  /// @throws Error  if there is no such tensor, LibTorch has no such dtype, or the file was cut short
  at::Tensor tensor(const std::string& name) const;

 private:
  struct Content;

  std::shared_ptr<const Content> content_;
};

/// The dtype of LibTorch for a name of the format ("F32"), or nothing where this LibTorch has none.
std::optional<at::ScalarType> dtype_of_safetensors(std::string_view name);
/// The name of the format for a dtype, or nothing where the format has none.
std::optional<std::string> safetensors_dtype(at::ScalarType dtype);

/// A safetensors file as it is about to be written: its bytes, one piece after the other. The bytes are those that
/// Hugging Face's writer makes for the same tensors. Tensors that share memory come each in full.
class SafetensorsStream {
 public:
  /// Looks at names, dtypes and sizes; elements are read by `write`.
  /// @param path  named in errors
  /// @param metadata  strings of "__metadata__"; Hugging Face's loader wants "format" to be "pt"
  /// @throws Error  if a name is given twice, or a dtype is not in the format
  SafetensorsStream(const std::string& path, const NamedTensors& tensors,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  std::uint64_t size_bytes() const { return prefix_.size() + data_bytes_; }
  /// Hands the file to `sink`, tensor by tensor: at most one is copied at a time (from a device, or to make it
  /// contiguous). A piece is valid during the call that it is given to.
  void write(const std::function<void(std::string_view)>& sink) const;

 private:
  std::vector<at::Tensor> tensors_;  // in the file's order
  std::string prefix_;               // length and header
  std::uint64_t data_bytes_ = 0;
};

/// Writes a SafetensorsStream to `path`: beside first, then synced and renamed.
/// @throws Error  as SafetensorsStream, or if the file cannot be written
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace lockstep
