#include "lockstep/seeing/tensorboard_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/seeing/crc32c.h"

namespace lockstep {
namespace {

constexpr const char* kTensorBoardFix =
    "check that the folder exists, that you may write to it, and that there is space";

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

// Protobuf's wire format: a field is its number and type, then the value.
std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>((value & 0x7f) | 0x80);
  return text + static_cast<char>(value);
}

std::string integer_field(unsigned number, std::int64_t value) {
  return varint(number << 3) + varint(static_cast<std::uint64_t>(value));
}

std::string bytes_field(unsigned number, std::string_view value) {
  return varint(number << 3 | 2) + varint(value.size()) + std::string(value);
}

std::string double_field(unsigned number, double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return varint(number << 3 | 1) + little_endian(bits, 8);
}

std::string float_field(unsigned number, float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return varint(number << 3 | 5) + little_endian(bits, 4);
}

std::string masked_crc(std::string_view bytes) {
  const std::uint32_t sum = crc32c(bytes);
  return little_endian(((sum >> 15) | (sum << 17)) + 0xa282ead8U, 4);
}

std::string record(std::string_view event) {
  const std::string length = little_endian(event.size(), 8);
  return length + masked_crc(length) + std::string(event) + masked_crc(event);
}

double wall_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Event.summary with one value.
std::string summary_of(std::string_view value) { return bytes_field(5, bytes_field(1, value)); }

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::string& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  const auto seconds = static_cast<std::int64_t>(wall_time());
  for (int attempt = 0; !fd_; ++attempt) {  // TensorBoard reads the files of a folder in the order of names
    path_ = fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder, seconds, host_name(), ::getpid(), attempt);
    fd_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
    if (!fd_ && errno != EEXIST)
      throw Error("cannot create " + path_ + ": " + errno_text(errno), path_, kTensorBoardFix);
  }
  write_event(0, bytes_field(3, "brain.Event:2"));
}

void TensorBoardWriter::add_scalar(const std::string& tag, double value, std::int64_t step) {
  write_event(step, summary_of(bytes_field(1, tag) + float_field(2, static_cast<float>(value))));
}

void TensorBoardWriter::add_text(const std::string& tag, const std::string& text, std::int64_t step) {
  constexpr std::int64_t kStringType = 7;  // DT_STRING
  const std::string shape = bytes_field(2, integer_field(1, 1));
  const std::string tensor = integer_field(1, kStringType) + bytes_field(2, shape) + bytes_field(8, text);
  const std::string metadata = bytes_field(1, bytes_field(1, "text"));  // the plugin that shows it
  write_event(step, summary_of(bytes_field(1, tag) + bytes_field(9, metadata) + bytes_field(8, tensor)));
}

void TensorBoardWriter::restart_at(std::int64_t step) {
  write_event(step, bytes_field(7, integer_field(1, 1)));  // SessionLog with status START
}

void TensorBoardWriter::write_event(std::int64_t step, std::string_view payload) {
  const std::string text = record(double_field(1, wall_time()) + integer_field(2, step) + std::string(payload));
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd_.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw Error("cannot write to " + path_ + ": " + errno_text(errno), path_, kTensorBoardFix);
    done += static_cast<std::size_t>(written);
  }
}

std::string tensorboard_tag(const std::string& log_name) {
  for (const char* split : {"eval", "test"}) {
    const std::string prefix = std::string(split) + "_";
    if (log_name.compare(0, prefix.size(), prefix) == 0)
      return std::string(split) + "/" + log_name.substr(prefix.size());
  }
  return "train/" + log_name;
}

}  // namespace lockstep
