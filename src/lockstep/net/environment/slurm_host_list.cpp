// Slurm's short forms of lists: hosts with numbers in brackets, counts with a factor.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lockstep/base/error.h"
#include "lockstep/net/environment/slurm_environment.h"

namespace lockstep {
namespace {

// Bounds a list as a whole, far above any cluster: a mistyped list must not fill the memory.
constexpr std::size_t kMaxHosts = 1 << 16;
constexpr std::size_t kMaxName = 255;        // bytes of a host's name
constexpr std::int64_t kMaxTasks = 1 << 20;  // of one host

[[noreturn]] void refuse_list(const std::string& text, const std::string& reason) {
  throw Error(fmt::format("\"{}\" is not a list of Slurm's: {}", text, reason), "SLURM_* of the environment",
              "start the program with srun, which sets it");
}

std::int64_t list_number(const std::string& digits, const std::string& text) {
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, status] = std::from_chars(digits.data(), end, value);
  if (status != std::errc() || stop != end || value < 0) refuse_list(text, "\"" + digits + "\" is not a number");
  return value;
}

// Splits at commas outside of brackets.
std::vector<std::string> items_of(const std::string& text) {
  std::vector<std::string> items(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[') - (c == ']');
    if (depth < 0 || depth > 1) refuse_list(text, "its brackets do not match");
    if (c == ',' && depth == 0) {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  if (depth != 0) refuse_list(text, "its brackets do not match");
  for (const std::string& item : items) {
    if (item.empty()) refuse_list(text, "an item is empty");
  }
  return items;
}

// The numbers of "01-03,7", with their leading zeros.
std::vector<std::string> numbers_of(const std::string& ranges, const std::string& text) {
  std::vector<std::string> numbers;
  for (const std::string& range : items_of(ranges)) {
    const std::size_t dash = range.find('-');
    const std::string first = range.substr(0, dash);
    const std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
    const std::int64_t end = list_number(last, text);
    const std::int64_t begin = list_number(first, text);
    if (begin > end) refuse_list(text, range + " runs backwards");
    if (first.size() > kMaxName) refuse_list(text, "a number has too many digits");
    if (static_cast<std::uint64_t>(end - begin) >= kMaxHosts - numbers.size())
      refuse_list(text, ranges + " is too long");
    for (std::int64_t i = begin; i <= end; ++i) numbers.push_back(fmt::format("{:0{}}", i, first.size()));
  }
  return numbers;
}

// "a[1-2]b[3-4]": every bracket multiplies the names before it.
std::vector<std::string> hosts_of(const std::string& item, const std::string& text) {
  std::vector<std::string> hosts(1);
  for (std::size_t at = 0; at < item.size();) {
    const bool has_numbers = item[at] == '[';
    const std::size_t end = std::min(item.find(has_numbers ? ']' : '[', at), item.size());
    const std::vector<std::string> parts = has_numbers ? numbers_of(item.substr(at + 1, end - at - 1), text)
                                                       : std::vector<std::string>{item.substr(at, end - at)};
    if (hosts.size() * parts.size() > kMaxHosts) refuse_list(text, "it names too many hosts");
    if (hosts.front().size() + parts.front().size() > kMaxName) refuse_list(text, "a name in it is too long");
    std::vector<std::string> product;
    product.reserve(hosts.size() * parts.size());
    for (const std::string& host : hosts) {
      for (const std::string& part : parts) product.push_back(host + part);
    }
    hosts = std::move(product);
    at = end + (has_numbers ? 1 : 0);
  }
  return hosts;
}

}  // namespace

std::vector<std::string> expand_host_list(const std::string& text) {
  std::vector<std::string> hosts;
  for (const std::string& item : items_of(text)) {
    for (std::string& host : hosts_of(item, text)) hosts.push_back(std::move(host));
    if (hosts.size() > kMaxHosts) refuse_list(text, "it names too many hosts");
  }
  return hosts;
}

std::vector<int> expand_task_counts(const std::string& text) {
  std::vector<int> counts;
  for (const std::string& item : items_of(text)) {
    const std::size_t open = item.find("(x");
    const bool repeated = open != std::string::npos;
    if (repeated && item.back() != ')') refuse_list(text, "\"" + item + "\" is not a count");
    const std::int64_t times = repeated ? list_number(item.substr(open + 2, item.size() - open - 3), text) : 1;
    const std::int64_t count = list_number(item.substr(0, open), text);
    if (times == 0) refuse_list(text, "\"" + item + "\" counts no node");
    if (times > static_cast<std::int64_t>(kMaxHosts - counts.size()) || count > kMaxTasks) {
      refuse_list(text, "\"" + item + "\" is too large");
    }
    counts.insert(counts.end(), static_cast<std::size_t>(times), static_cast<int>(count));
  }
  return counts;
}

}  // namespace lockstep
