#include "lockstep/parallel/agreement/rank_difference.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "lockstep/comm/broadcast_text.h"

namespace lockstep {
namespace {

at::Tensor long_tensor(std::int64_t count) { return at::empty({count}, at::TensorOptions().dtype(at::kLong)); }

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string line_or_nothing(const std::vector<std::string>& lines, std::size_t index) {
  return index < lines.size() ? lines[index] : std::string("nothing");
}

constexpr std::int64_t kEqual = -1;

}  // namespace

std::string RankDifference::text() const {
  return fmt::format("rank {} has {}, rank {} has {}", first_rank, first, rank, other);
}

std::optional<RankDifference> first_difference(Communicator& communicator, const std::vector<std::string>& lines) {
  const std::string text = fmt::format("{}", fmt::join(lines, "\n"));
  const std::vector<std::string> theirs = split_lines(broadcast_text(communicator, text, 0));
  at::Tensor own = long_tensor(1);
  std::int64_t& mine = own.data_ptr<std::int64_t>()[0];
  mine = kEqual;
  for (std::size_t i = 0; i < std::max(lines.size(), theirs.size()) && mine == kEqual; ++i) {
    if (line_or_nothing(lines, i) != line_or_nothing(theirs, i)) mine = static_cast<std::int64_t>(i);
  }
  at::Tensor all = long_tensor(communicator.world_size());
  communicator.all_gather(all, own);
  const std::int64_t* differences = all.data_ptr<std::int64_t>();
  const std::int64_t* end = differences + communicator.world_size();
  const std::int64_t* found = std::find_if(differences, end, [](std::int64_t d) { return d != kEqual; });
  if (found == end) return {};
  RankDifference result;
  result.index = static_cast<std::size_t>(*found);
  result.rank = static_cast<int>(found - differences);
  result.first = line_or_nothing(theirs, result.index);
  result.other = broadcast_text(communicator, line_or_nothing(lines, result.index), result.rank);
  return result;
}

std::optional<RankDifference> first_difference_among(Communicator& communicator, const std::vector<std::string>& lines,
                                                     const std::vector<bool>& takes_part) {
  const std::string text = fmt::format("{}", fmt::join(lines, "\n"));
  std::optional<RankDifference> result;
  std::optional<std::vector<std::string>> first;
  int first_rank = 0;
  for (int rank = 0; rank < communicator.world_size(); ++rank) {
    if (!takes_part[static_cast<std::size_t>(rank)]) continue;
    const std::vector<std::string> theirs = split_lines(broadcast_text(communicator, text, rank));
    if (!first) {
      first = theirs;
      first_rank = rank;
    }
    const std::size_t most = std::max(first->size(), theirs.size());
    for (std::size_t i = 0; i < most && (!result || i < result->index); ++i) {
      if (line_or_nothing(*first, i) == line_or_nothing(theirs, i)) continue;
      result = RankDifference{i, rank, line_or_nothing(*first, i), line_or_nothing(theirs, i), first_rank};
      break;
    }
  }
  return result;
}

}  // namespace lockstep
