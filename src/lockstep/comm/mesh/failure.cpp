#include "lockstep/comm/mesh/failure.h"

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr char kSeparator = '\x1f';
constexpr std::size_t kLongestText = 4096;

}  // namespace

void GroupFailure::raise() const {
  if (kind == Kind::kTimeout) throw TimeoutError(happened, "this group", fix);
  throw Error(happened, "this group", fix);
}

std::string GroupFailure::encode() const {
  return std::to_string(static_cast<int>(kind)) + kSeparator + happened + kSeparator + fix;
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
  if (kind == "1") failure.kind = Kind::kTimeout;
  if (kind == "2") failure.kind = Kind::kDisagreement;
  if (kind == "3") failure.kind = Kind::kAborted;
  failure.happened = text.substr(first + 1, second - first - 1).substr(0, kLongestText);
  failure.fix = text.substr(second + 1).substr(0, kLongestText);
  return failure;
}

}  // namespace lockstep
