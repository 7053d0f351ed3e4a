#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// An event file of TensorBoard: numbers and texts over steps. The format is TensorFlow's: records with a length and
/// masked CRC-32C sums (tensorflow/core/lib/io/record_writer), each an Event in protobuf's wire format
/// (tensorflow/core/util/event.proto). Every call is one write to the file. Not thread-safe.
class TensorBoardWriter {
 public:
  /// Makes `folder` if it does not exist, and a new file in it. @throws Error  if it cannot
  explicit TensorBoardWriter(const std::string& folder);

  const std::string& path() const { return path_; }
  void add_scalar(const std::string& tag, double value, std::int64_t step);
  /// Adds a text, shown as Markdown.
  void add_text(const std::string& tag, const std::string& text, std::int64_t step);
  /// Invalidates the entries of earlier files in the folder for `step` and later, because training resumes there.
  void restart_at(std::int64_t step);

 private:
  void write_event(std::int64_t step, std::string_view payload);

  std::string path_;
  UniqueFd fd_;
};

/// "eval_loss" is "eval/loss", "test_f1" is "test/f1", all else "train/...", as Hugging Face's Trainer names them.
std::string tensorboard_tag(const std::string& log_name);

}  // namespace lockstep
