#include "lockstep/data/data_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/tensor/kept_generator.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMostParts = 64;
constexpr std::int64_t kAtATime = 4096;
constexpr std::int64_t kMostRead = 4096;
constexpr std::int64_t kLeastRead = 4;
constexpr double kLongestRead_s = 0.05;
constexpr const char* kHexDigits = "0123456789abcdef";

std::uint64_t digest_of_example(const Example& example) {
  std::uint64_t digest = example.size();
  for (const auto& [name, tensor] : example) {
    mix_into(digest, hash_bytes(name.data(), name.size()));
    if (!tensor.defined()) continue;
    const at::Tensor flat = tensor.detach().to(at::kCPU).contiguous();
    mix_into(digest, static_cast<std::uint64_t>(flat.scalar_type()));
    for (const std::int64_t size : flat.sizes()) mix_into(digest, static_cast<std::uint64_t>(size));
    mix_into(digest, hash_bytes(flat.data_ptr(), flat.nbytes()));
  }
  return digest;
}

// @return  false if the dataset writes no digests
template <typename Use>
bool for_each_digest(const Dataset& data, std::int64_t begin, std::int64_t end, const Use& use) {
  std::vector<std::int64_t> indices;
  std::vector<std::uint64_t> digests;
  for (; begin < end; begin += kAtATime) {
    indices.resize(static_cast<std::size_t>(std::min(kAtATime, end - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    digests.resize(indices.size());
    if (!data.write_digests(indices, digests.data())) return false;
    for (const std::uint64_t digest : digests) use(digest);
  }
  return true;
}

// A sample that cannot be read is reported where the training reads it. Samples that are drawn at random take numbers
// from LibTorch's generator, and the training must have those that it would have without being looked at.
void look_at_some(const Dataset& data, LookAt look, DataDigest& digest) {
  const KeptGenerator kept;
  const auto start = std::chrono::steady_clock::now();
  try {
    for (std::int64_t n = 0; n < std::min(digest.samples, kMostRead); ++n) {
      if (n >= kLeastRead && (look == LookAt::Few || seconds_since(start) > kLongestRead_s)) return;
      const std::int64_t index = looked_at(n, digest.samples);
      const std::uint64_t once = digest_of_example(data.get(index)), again = digest_of_example(data.get(index));
      if (once != again) return digest.parts.clear();  // samples are drawn at random when they are read
      digest.parts.push_back(once);
    }
  } catch (const std::exception&) {
    digest.parts.clear();
  }
}

std::string hex_of(const std::vector<std::uint64_t>& numbers) {
  std::string text;
  text.reserve(16 * numbers.size());
  for (const std::uint64_t number : numbers) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kHexDigits[number >> shift & 15];
  }
  return text;
}

std::vector<std::uint64_t> numbers_of_hex(const std::string& hex) {
  std::vector<std::uint64_t> numbers(hex.size() / 16);
  for (std::size_t i = 0; i < 16 * numbers.size(); ++i) {
    const std::string_view digits = kHexDigits;
    numbers[i / 16] = numbers[i / 16] << 4 | (digits.find(hex[i]) & 15);
  }
  return numbers;
}

}  // namespace

std::int64_t DataDigest::part_size() const {
  return std::max<std::int64_t>(1, (samples + kMostParts - 1) / kMostParts);
}

std::int64_t looked_at(std::int64_t n, std::int64_t samples) {
  // Multiples of the golden ratio spread evenly (Weyl's sequence).
  std::int64_t step = std::max<std::int64_t>(1, static_cast<std::int64_t>(0.6180339887 * static_cast<double>(samples)));
  while (std::gcd(step, samples) != 1) ++step;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(step) %
                                   static_cast<std::uint64_t>(samples));
}

DataDigest digest_of(const Dataset* data, std::string source, LookAt look) {
  DataDigest digest;
  digest.source = std::move(source);
  digest.samples = data == nullptr ? -1 : data->size();
  if (data == nullptr) return digest;
  std::int64_t in_part = 0;
  digest.is_whole = for_each_digest(*data, 0, digest.samples, [&](std::uint64_t of_sample) {
    if (in_part == 0) digest.parts.push_back(0);
    mix_into(digest.parts.back(), of_sample);
    digest.unordered += of_sample;
    in_part = in_part + 1 == digest.part_size() ? 0 : in_part + 1;
  });
  if (!digest.is_whole) look_at_some(*data, look, digest);
  return digest;
}

std::vector<std::uint64_t> digests_of_part(const Dataset& data, const DataDigest& digest, std::int64_t part) {
  std::vector<std::uint64_t> digests;
  const std::int64_t begin = part * digest.part_size();
  for_each_digest(data, begin, std::min(begin + digest.part_size(), digest.samples),
                  [&](std::uint64_t of_sample) { digests.push_back(of_sample); });
  return digests;
}

std::optional<DataDifference> find_difference(const DataDigest& own, const DataDigest& other) {
  DataDifference difference;
  difference.samples = own.samples;
  difference.others = other.samples;
  difference.last = -1;
  if (own.samples != other.samples) return difference;
  if (own.is_whole != other.is_whole) return std::nullopt;
  const auto count = static_cast<std::ptrdiff_t>(std::min(own.parts.size(), other.parts.size()));
  const auto found = std::mismatch(own.parts.begin(), own.parts.begin() + count, other.parts.begin()).first;
  const std::int64_t part = found - own.parts.begin();
  if (part == count) return std::nullopt;
  if (!own.is_whole) {
    difference.first = difference.last = looked_at(part, own.samples);
    return difference;
  }
  difference.part = part;
  difference.is_order = own.unordered == other.unordered;
  difference.first = part * own.part_size();
  difference.last = std::min(difference.first + own.part_size(), own.samples) - 1;
  return difference;
}

std::string DataDifference::text(const std::string& mine, const std::string& theirs) const {
  const auto count = [](std::int64_t number) {
    return number < 0 ? std::string("none") : fmt::format("{} sample{}", number, number == 1 ? "" : "s");
  };
  if (samples != others) return fmt::format("{} has {}, and {} {}", mine, count(samples), theirs, count(others));
  const std::string where =
      first == last ? fmt::format("is sample {}", first) : fmt::format("is among the samples {} to {}", first, last);
  if (is_order) {
    return fmt::format("{} has the samples of {} in another order; the first that differs {}, counted from 0", mine,
                       theirs, where);
  }
  return fmt::format("{} has other samples than {}; the first that differs {}, counted from 0", mine, theirs, where);
}

nlohmann::json json_of(const DataDigest& digest) {
  return {{"source", digest.source},
          {"samples", digest.samples},
          {"is_whole", digest.is_whole},
          {"parts", hex_of(digest.parts)},
          {"unordered", hex_of({digest.unordered})}};
}

std::optional<DataDigest> data_digest_of(const nlohmann::json& json) {
  try {
    DataDigest digest;
    digest.source = json.at("source").get<std::string>();
    digest.samples = json.at("samples").get<std::int64_t>();
    digest.is_whole = json.at("is_whole").get<bool>();
    digest.parts = numbers_of_hex(json.at("parts").get<std::string>());
    digest.unordered = numbers_of_hex(json.at("unordered").get<std::string>()).at(0);
    return digest;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace lockstep
