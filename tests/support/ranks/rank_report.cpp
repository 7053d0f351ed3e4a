#include "tests/support/ranks/rank_report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// What the running test's failed expectations say.
std::vector<std::string> failed_expectations() {
  std::vector<std::string> texts;
  const auto* const info = ::testing::UnitTest::GetInstance()->current_test_info();
  for (int i = 0; info != nullptr && i < info->result()->total_part_count(); ++i) {
    const ::testing::TestPartResult& part = info->result()->GetTestPartResult(i);
    if (!part.failed()) continue;
    texts.push_back(std::string(part.file_name() ? part.file_name() : "?") + ":" + std::to_string(part.line_number()) +
                    ": " + part.message());
  }
  return texts;
}

}  // namespace

RankOutcome outcome_of(const std::function<void()>& body) {
  RankOutcome end;
  try {
    body();
    return end;
  } catch (const std::exception& error) {
    end.timed_out = dynamic_cast<const TimeoutError*>(&error) != nullptr;
    end.text = error.what();
    if (const FailureCause* const cause = cause_of(error)) end.cause = *cause;
  } catch (...) {
    end.text = "an exception of unknown type";
  }
  end.failed = true;
  return end;
}

RankOutcome outcome_with_expectations(const std::function<void()>& body) {
  const std::size_t failed_before = failed_expectations().size();
  RankOutcome end = outcome_of(body);
  const std::vector<std::string> failed = failed_expectations();
  if (!end.failed && failed.size() > failed_before) {
    end.failed = true;
    end.text = "an expectation failed: " + failed[failed_before];
  }
  return end;
}

// "failed", "timed_out" and the signal as numbers, the cause or "-", a line feed, and the text.
std::string report_of(const RankOutcome& end) {
  std::ostringstream report;
  report << end.failed << ' ' << end.timed_out << ' ' << end.signal << ' ';
  if (end.cause) {
    report << to_string(end.cause->kind) << ' ' << end.cause->rank;
  } else {
    report << '-';
  }
  report << '\n' << end.text;
  return report.str();
}

RankOutcome read_report(const std::string& report) {
  const std::size_t line = report.find('\n');
  std::istringstream fields(report.substr(0, line));
  RankOutcome end;
  std::string kind;
  int rank = -1;
  fields >> end.failed >> end.timed_out >> end.signal >> kind;
  if (const auto known = failure_kind(kind); known && fields >> rank) end.cause = FailureCause{*known, rank};
  end.text = line == std::string::npos ? "" : report.substr(line + 1);
  return end;
}

void set_rank_variables(int rank, int world_size, const std::string& store) {
  const auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
  set("RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(world_size));
  set("LOCAL_RANK", std::to_string(rank));
  set("LOCAL_WORLD_SIZE", std::to_string(world_size));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", "1");  // nobody is there: the store is on the socket
  set("LOCKSTEP_STORE", store);
  ::unsetenv("LOCKSTEP_SECRET");
  ::unsetenv("LOCKSTEP_SECRET_FILE");
}

void throw_first_failure(const std::vector<RankOutcome>& ends, int first) {
  if (first < 0) return;
  const RankOutcome& end = ends[static_cast<std::size_t>(first)];
  std::string text = "rank " + std::to_string(first) + " failed first: " + end.text;
  if (end.signal != 0) text += std::string("killed by ") + ::strsignal(end.signal);
  throw std::runtime_error(text);
}

}  // namespace lockstep
