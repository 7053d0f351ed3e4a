#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep::text {

/// Code points that one page describes.
constexpr char32_t kPageChars = 256;

/// A table over all code points, made page by page when a text first needs one: no text uses more than a few of the
/// 4352 pages, and looking up every character in ICU would take a second. Thread-safe; reading costs one load.
template <typename Page>
class LazyPages {
 public:
  /// `fill(first, page)` describes the 256 code points from `first` on; it is called at most once per page.
  explicit LazyPages(std::function<void(char32_t, Page&)> fill) : fill_(std::move(fill)) {}

  const Page& page_of(char32_t c) const {
    const Page* page = pages_[c / kPageChars].load(std::memory_order_acquire);
    return page != nullptr ? *page : make(c / kPageChars);
  }

 private:
  static constexpr std::size_t kPages = 0x110000 / kPageChars;

  const Page& make(std::size_t index) const {
    std::lock_guard<std::mutex> lock(mutex_);
    if (const Page* made = pages_[index].load(std::memory_order_relaxed)) return *made;
    auto page = std::make_unique<Page>();
    fill_(static_cast<char32_t>(index) * kPageChars, *page);
    const Page& result = *page;
    owned_.push_back(std::move(page));
    pages_[index].store(&result, std::memory_order_release);
    return result;
  }

  std::function<void(char32_t, Page&)> fill_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Page>> owned_;
  mutable std::array<std::atomic<const Page*>, kPages> pages_ = {};
};

}  // namespace lockstep::text
