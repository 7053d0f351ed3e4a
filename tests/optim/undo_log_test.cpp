// Tests the undo log of the kernels by processes that die in the middle of an update: from some page on, one of the
// arrays may not be written. Another process takes back what was under way, and continues.
#include "lockstep/optim/kernels/undo_log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/optim/kernels/kernels.h"
#include "lockstep/optim/update/update_lane.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

constexpr std::size_t kArrays = 4;
constexpr std::size_t kPages = 3;  // of each array

/// Memory that processes share, of whole pages.
class SharedPages {
 public:
  explicit SharedPages(std::size_t pages)
      : bytes_(pages * page_bytes()),
        data_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;
  ~SharedPages() { ::munmap(data_, bytes_); }
  static std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
  std::byte* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

struct PlainMemory {
  std::uint64_t load(const std::atomic<std::uint64_t>& word) const { return word.load(); }
  void store(std::atomic<std::uint64_t>& word, std::uint64_t value) const { word.store(value); }
};

struct Case {
  std::string optimizer;
  InstructionSet level = InstructionSet::Baseline;
  std::size_t fatal_array = 0;    // which the process that dies may not write,
  std::size_t first_element = 0;  // and where element 0 of it lies in its first page: it dies a page behind that page
};

/// An update of elements in shared memory. Arrays: weights, and up to three buffers of state.
template <typename T>
class SharedUpdate {
 public:
  explicit SharedUpdate(const Case& of) : of_(of) {
    for (std::size_t a = 0; a < kArrays; ++a) {
      T* const values = array(a);
      for (std::size_t i = 0; i < numel(); ++i)
        values[i] = static_cast<T>(0.25 + 0.001 * static_cast<double>(i + 7 * a));
    }
    for (std::size_t i = 0; i < numel(); ++i) gradient_.push_back(static_cast<T>(0.5 - 0.003 * static_cast<double>(i)));
  }

  // Each array begins at an element of its own, so that the fatal store is not always the first of a vector.
  std::size_t offset(std::size_t a) const { return a == of_.fatal_array ? of_.first_element : 3 * a; }
  std::size_t numel() const { return (kPages - 1) * SharedPages::page_bytes() / sizeof(T); }
  T* array(std::size_t a) const {
    return reinterpret_cast<T*>(memory_.data() + a * kPages * SharedPages::page_bytes()) + offset(a);
  }
  std::vector<T> values() const {
    std::vector<T> all;
    for (std::size_t a = 0; a < kArrays; ++a) all.insert(all.end(), array(a), array(a) + numel());
    return all;
  }

  void run(std::size_t begin, std::size_t end, bool with_undo) {
    void* source = gradient_.data();
    const auto fill = [&](auto& pass) {
      pass.param = pass.param_out = array(0);
      pass.gradient.sources = &source;
      pass.gradient.type = sizeof(T) == sizeof(double) ? ElementType::Double : ElementType::Float;
      if (with_undo) pass.undo = log();
    };
    if (of_.optimizer == "SGD") {
      SgdPass<T> pass;
      fill(pass);
      pass.momentum_buffer = array(1);
      pass.hyper = {0.1, 0.9, 0, 0.01, true};
      return sgd_step(pass, begin, end, of_.level);
    }
    AdamPass<T> pass;
    fill(pass);
    pass.exp_avg = array(1);
    pass.exp_avg_sq = array(2);
    if (of_.optimizer == "AdamW, amsgrad") pass.max_exp_avg_sq = array(3);
    pass.step = 3;
    pass.hyper = {0.1, 0.9, 0.99, 1e-6, 0.01};
    if (of_.optimizer == "Adam") return adam_step(pass, begin, end, of_.level);
    adamw_step(pass, begin, end, of_.level);
  }
  // In several passes, as over several parameters.
  void run_all(std::size_t begin, bool with_undo) {
    for (const std::size_t end : {numel() / 3, numel() / 2 + 1, numel()}) {
      if (begin < end) run(begin, end, with_undo);
      begin = std::max(begin, end);
    }
  }
  /// A process that dies at its first store to the page. @return  whether it died there
  bool die() {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::signal(SIGSEGV, SIG_DFL);
      ::prctl(PR_SET_DUMPABLE, 0);  // no core is wanted
      std::byte* const page = memory_.data() + (of_.fatal_array * kPages + 1) * SharedPages::page_bytes();
      ::mprotect(page, SharedPages::page_bytes(), PROT_READ);
      run_all(0, true);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
  }
  /// What the process that comes after it does. @return  elements that were done
  std::size_t resume() {
    PlainMemory memory;
    UpdateLane<PlainMemory> lane(memory, *word());
    const auto done =
        lane.resume(kNumber, [&](const UndoMark& mark) { log().restore(mark.position, mark.elements, mark.slot); });
    run_all(done, true);
    lane.finish(kNumber, numel());
    return done;
  }

 private:
  static constexpr std::uint64_t kNumber = 70001;

  std::atomic<std::uint64_t>* word() const { return reinterpret_cast<std::atomic<std::uint64_t>*>(slots_.data()); }
  UndoLog log() const {
    UndoLog log;
    for (std::size_t a = 0; a < kArrays; ++a) log.arrays[a] = reinterpret_cast<std::byte*>(array(a));
    log.num_arrays = kArrays;
    log.element_bytes = sizeof(T);
    log.slots = slots_.data() + 64;
    log.word = word();
    log.number = kNumber;
    return log;
  }

  Case of_;
  SharedPages memory_{kArrays * kPages};
  SharedPages slots_{1 + UndoLog::slots_bytes(sizeof(double)) / SharedPages::page_bytes() + 1};
  std::vector<T> gradient_;
};

template <typename T>
void expect_whole_after_a_death(const Case& each) {
  SCOPED_TRACE("from element " + std::to_string(each.first_element));
  SharedUpdate<T> undisturbed(each);
  undisturbed.run_all(0, false);
  SharedUpdate<T> update(each);
  ASSERT_TRUE(update.die());
  EXPECT_NE(update.values(), undisturbed.values());
  const std::size_t done = update.resume();
  EXPECT_GT(done, 0U) << "it began again";
  EXPECT_EQ(update.values(), undisturbed.values());
}

std::vector<InstructionSet> levels() {
  std::vector<InstructionSet> all{InstructionSet::Baseline};
  if (widest_instruction_set() != InstructionSet::Baseline) all.push_back(InstructionSet::Avx2);
  if (widest_instruction_set() == InstructionSet::Avx512) all.push_back(InstructionSet::Avx512);
  return all;
}

TEST(UndoLog, TakesBackWhatAKilledProcessHadUnderWay) {
  const std::vector<std::pair<std::string, std::size_t>> changed{
      {"SGD", 2}, {"Adam", 3}, {"AdamW", 3}, {"AdamW, amsgrad", 4}};
  const std::vector<std::size_t> firsts{0, 1, 13, 32, 63};
  // Each death is a fork of a process with LibTorch. The suite lets each array of each level and optimizer begin at two
  // of these elements, one for each type, and the next array at the next two.
  const std::size_t most = test_size(std::size_t{1}, firsts.size());
  std::size_t next = 0;
  for (const InstructionSet level : levels()) {
    for (const auto& [optimizer, arrays] : changed) {
      for (std::size_t array = 0; array < arrays; ++array) {
        SCOPED_TRACE(optimizer + ", level " + std::to_string(static_cast<int>(level)) + ", array " +
                     std::to_string(array));
        for (std::size_t i = 0; i < most; ++i, ++next) {
          expect_whole_after_a_death<float>({optimizer, level, array, firsts[next % firsts.size()]});
          expect_whole_after_a_death<double>({optimizer, level, array, firsts[(next + 2) % firsts.size()]});
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
