#include "lockstep/launch/rank_end.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

constexpr std::uintmax_t kLargestErrorFileBytes = 1 << 20;

// What Lockstep, Gloo, NCCL, MPI and PyTorch say of a peer that is gone.
constexpr std::array kBlame{"lost rank",
                            "lost the connection to",
                            "lost the store",
                            " left the group",
                            "connections of this group ended",
                            "another rank ended the group",
                            "Connection closed by peer",
                            "Connection reset by peer",
                            "Broken pipe",
                            "Socket Timeout",
                            "Timed out waiting",
                            "Read error [",
                            "Write error [",
                            "ncclRemoteError",
                            "remote process exited"};

bool blames(const std::string& text) {
  for (const char* phrase : kBlame) {
    if (text.find(phrase) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

bool blames_a_peer(const RankEnd& end) {
  if (blames(end.message)) return true;
  for (const std::string& line : end.last_lines) {
    if (blames(line)) return true;
  }
  return false;
}

const RankEnd* first_failure(const std::vector<RankEnd>& ends) {
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ends) {
    if (end.status.well() || end.was_asked) continue;
    // A signal that the kernel or a person sent is a cause by itself, whatever was written before.
    if (end.status.signal != 0 || !blames_a_peer(end)) return &end;
    if (first == nullptr) first = &end;
  }
  return first;
}

std::string read_error_file(const std::string& path) {
  std::error_code status;
  const std::uintmax_t size = std::filesystem::file_size(path, status);
  if (status || size == 0 || size > kLargestErrorFileBytes) return "";
  std::ifstream file(path);
  const nlohmann::json content = nlohmann::json::parse(file, nullptr, false);
  if (!content.is_object() || !content.contains("message")) return "";
  nlohmann::json message = content["message"];
  if (message.is_object() && message.contains("message")) message = message["message"];
  return message.is_string() ? message.get<std::string>() : message.dump();
}

}  // namespace lockstep
