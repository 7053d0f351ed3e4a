#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/base/error.h"
#include "lockstep/launch/elastic/messages.h"

namespace lockstep::fuzz {
namespace {

void check_report(const std::string& text) {
  const HostReport report = parse_report(text);
  if (report.kind == HostReport::Kind::Lost) return;  // the store writes it
  const std::string written = to_text(report);
  LOCKSTEP_HOLDS(to_text(parse_report(written)) == written);
}

void check_order(const std::string& text) {
  const std::string written = to_text(parse_order(text));
  LOCKSTEP_HOLDS(to_text(parse_order(written)) == written);
}

}  // namespace

void run_elastic_message(std::string_view bytes) {
  const std::string text(bytes);
  try {
    check_report(text);
  } catch (const Error&) {  // perhaps an order
  }
  check_order(text);
}

}  // namespace lockstep::fuzz
