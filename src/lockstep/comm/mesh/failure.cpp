#include "lockstep/comm/mesh/failure.h"

#include <algorithm>
#include <charconv>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr char kSeparator = '\x1f';
constexpr std::size_t kLongestText = 4096;

int rank_in(const std::string& text) {
  int rank = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), rank);
  return problem == std::errc() && end == text.data() + text.size() && rank >= 0 ? rank : -1;
}

}  // namespace

void GroupFailure::raise() const {
  if (kind == Kind::Timeout) throw_caused(TimeoutError(happened, "this group", fix), cause());
  throw_caused(Error(happened, "this group", fix), cause());
}

FailureCause GroupFailure::cause() const {
  switch (kind) {
    case Kind::Timeout:
      return {FailureCause::Kind::Timeout, blamed};
    case Kind::Disagreement:
      return {FailureCause::Kind::Disagreement, -1};
    case Kind::Aborted:
      return {FailureCause::Kind::AbortedByPeer, blamed};
    case Kind::Lost:
      break;
  }
  return {FailureCause::Kind::LostPeer, blamed};
}

std::string GroupFailure::encode() const {
  return std::to_string(static_cast<int>(kind)) + kSeparator + happened + kSeparator + fix + kSeparator +
         std::to_string(blamed);
}

GroupFailure GroupFailure::decode(const std::string& text) {
  GroupFailure failure;
  const std::size_t first = text.find(kSeparator);
  const std::size_t second = first == std::string::npos ? first : text.find(kSeparator, first + 1);
  if (second == std::string::npos) {
    failure.happened = "another rank ended the group";
    failure.fix = "read the other ranks' messages";
    return failure;
  }
  const std::string kind = text.substr(0, first);
  if (kind == "1") failure.kind = Kind::Timeout;
  if (kind == "2") failure.kind = Kind::Disagreement;
  if (kind == "3") failure.kind = Kind::Aborted;
  failure.happened = text.substr(first + 1, second - first - 1).substr(0, kLongestText);
  const std::size_t third = std::min(text.find(kSeparator, second + 1), text.size());
  failure.fix = text.substr(second + 1, third - second - 1).substr(0, kLongestText);
  failure.blamed = rank_in(text.substr(std::min(third + 1, text.size())));
  return failure;
}

}  // namespace lockstep
