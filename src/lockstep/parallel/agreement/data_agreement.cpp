#include "lockstep/parallel/agreement/data_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/comm/gather_texts.h"
#include "lockstep/parallel/agreement/setting_difference.h"
#include "lockstep/parallel/same_data.h"

namespace lockstep {
namespace {

constexpr const char* kWhat = "what";
constexpr const char* kSettings = "settings";
constexpr const char* kDigest = "digest";

struct Found {
  std::string text;
  std::size_t index = 0;  // of the dataset
  std::optional<DataDifference> samples{};
};

std::string source_text(const nlohmann::json& data) {
  const auto digest = data_digest_of(data.value(kDigest, nlohmann::json()));
  return digest ? digest->source : "";
}

// Settings first, because other samples may follow from them.
std::optional<Found> difference_of(const nlohmann::json& mine, const nlohmann::json& theirs, const std::string& me,
                                   const std::string& them) {
  const std::string prefix = mine.value(kWhat, "") + ": ";
  const auto settings =
      setting_differences(mine.value(kSettings, nlohmann::json()), theirs.value(kSettings, nlohmann::json()));
  if (!settings.empty()) return Found{prefix + settings.front().text(me, them)};
  const auto a = data_digest_of(mine.value(kDigest, nlohmann::json()));
  const auto b = data_digest_of(theirs.value(kDigest, nlohmann::json()));
  const auto samples = a && b ? find_difference(*a, *b) : std::nullopt;
  if (!samples) return std::nullopt;
  return Found{prefix, 0, samples};
}

std::optional<Found> difference_of(const std::string& mine, const std::string& theirs, const std::string& me,
                                   const std::string& them) {
  const nlohmann::json a = nlohmann::json::parse(mine, nullptr, false);
  const nlohmann::json b = nlohmann::json::parse(theirs, nullptr, false);
  if (a.size() != b.size()) {
    return Found{fmt::format("{} compares {} datasets, and {} compares {}", me, a.size(), them, b.size())};
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto found = difference_of(a[i], b[i], me, them);
    if (!found) continue;
    found->index = i;
    return found;
  }
  return std::nullopt;
}

std::string place_of_data(const Membership& membership, const std::string& text, std::size_t index, std::size_t rank) {
  const nlohmann::json data = nlohmann::json::parse(text, nullptr, false);
  const std::string file = index < data.size() ? source_text(data[index]) : "";
  const std::string host = membership.on_one_host() ? "" : " on " + membership.peers.at(rank).host;
  return fmt::format("{}rank {}{}", file.empty() ? "" : file + " of ", rank, host);
}

}  // namespace

DataAgreement::DataAgreement(std::vector<ComparedData> data) : data_(std::move(data)) {
  nlohmann::json all = nlohmann::json::array();
  for (const ComparedData& each : data_) {
    digests_.push_back(digest_of(each.dataset.get(), each.file));
    all.push_back({{kWhat, each.what}, {kSettings, each.settings}, {kDigest, json_of(digests_.back())}});
  }
  text_ = all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Files are not compared, and samples of which not equally many were looked at are: so only what is equal for certain
// has one number.
std::int64_t DataAgreement::number() const {
  return data_.empty() ? 0 : static_cast<std::int64_t>(hash_bytes(text_.data(), text_.size()) | 1);
}

std::optional<DataAgreement::Difference> DataAgreement::first_difference(Communicator& group, int reference) const {
  const std::vector<std::string> texts = gather_texts(group, text_);
  const std::string& theirs = texts.at(static_cast<std::size_t>(reference));
  std::optional<Difference> first;
  std::optional<Found> found;
  std::vector<bool> all(texts.size());
  const std::string them = fmt::format("rank {}", reference);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    auto of_rank = difference_of(texts[rank], theirs, fmt::format("rank {}", rank), them);
    all[rank] = of_rank.has_value();
    if (!of_rank || first) continue;
    first = Difference{static_cast<int>(rank), {}, {}, {}};
    found = std::move(of_rank);
  }
  if (!first) return std::nullopt;
  first->text = found->text;
  if (found->samples) {
    narrow(group, *found->samples, data_.at(found->index).dataset.get(), digests_[found->index], first->rank,
           reference);
    first->text += found->samples->text(fmt::format("rank {}", first->rank), them);
  }
  const auto place = [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    return place_of_data(group.membership(), texts[index], found->index, index);
  };
  first->where = place(first->rank) + ", " + place(reference);
  first->all = std::move(all);
  return first;
}

void DataAgreement::require_on_all(Communicator& group) const {
  if (group.world_size() == 1) return;
  const auto found = first_difference(group);
  if (!found) return;
  refuse_data("the ranks have not read the same data; " + found->text, found->where,
              "give all ranks the same file and settings, the whole file to each: every rank takes a share of its own; "
              "if each host has a copy of the file, compare them (sha256sum), and copy one to all hosts");
}

void narrow(Communicator& group, DataDifference& difference, const Dataset* own, const DataDigest& digest, int rank,
            int reference) {
  if (difference.part < 0) return;
  std::string mine;
  if (own != nullptr && digest.is_whole) {
    const auto digests = digests_of_part(*own, digest, difference.part);
    mine.assign(reinterpret_cast<const char*>(digests.data()), digests.size() * sizeof(digests[0]));
  }
  const std::vector<std::string> all = gather_texts(group, mine);
  const std::string &a = all[static_cast<std::size_t>(rank)], &b = all[static_cast<std::size_t>(reference)];
  const auto length = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  const auto other = std::mismatch(a.begin(), a.begin() + length, b.begin()).first;
  difference.first += (other - a.begin()) / static_cast<std::ptrdiff_t>(sizeof(std::uint64_t));
  difference.last = difference.first;
}

void refuse_data(const std::string& what, const std::string& where, const std::string& fix) {
  const UsageError error(what, where, fix);
  const FailureCause cause{FailureCause::Kind::Usage, -1};
  record_failure(error.what(), cause);  // also for a program that ends with a code of its own
  throw_caused(error, cause);
}

void require_same_data(Communicator& group, const std::shared_ptr<const Dataset>& dataset, const std::string& file) {
  if (group.world_size() > 1) DataAgreement({{"data", dataset, file}}).require_on_all(group);
}

}  // namespace lockstep
