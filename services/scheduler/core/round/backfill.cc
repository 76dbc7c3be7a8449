#include "services/scheduler/core/round/backfill.h"

#include <algorithm>
#include <utility>

namespace capstan::scheduler::round {
namespace {

// Moves the workspace to the state after the first `to` departures from that after `from`.
void Move(Workspace& workspace, const std::vector<Departure>& departures, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) workspace.Give(*departures[i].shape, *departures[i].runs, 1);
  for (size_t i = from; i > to; --i) {
    workspace.Give(*departures[i - 1].shape, *departures[i - 1].runs, -1);
  }
}

void Bound(Workspace& workspace, size_t mark, Reservation& reservation) {
  const NodeRows& rows = workspace.rows();
  for (const TaskRun& run : reservation.runs) {
    ResourceVector left{};
    std::copy_n(rows.free(rows.position(run.node)), rows.width(), left.begin());
    reservation.bounds.emplace_back(run.node, left);
  }
  workspace.UndoTo(mark);
  for (const auto& [node, left] : reservation.bounds) {
    workspace.SetBound(rows.position(node), left);
  }
}

}  // namespace

Departure DepartureOf(const Snapshot& snapshot, GangIndex gang, absl::Time now,
                      absl::Duration assumed_duration) {
  const Gang& entry = snapshot.gangs[gang];
  Departure departure;
  departure.gang = gang;
  departure.shape = snapshot.shapes[entry.shape].get();
  departure.runs = entry.runs;
  if (entry.state == GangState::kEnding) {
    departure.end = now;
    return departure;
  }
  departure.assumed = entry.declared == absl::InfiniteDuration();
  const absl::Time started = entry.state == GangState::kRunning ? entry.started : now;
  departure.end = started + (departure.assumed ? assumed_duration : entry.declared);
  if (departure.end <= now) {
    departure.assumed = true;
    departure.end = now + std::max(now - started, absl::Seconds(1));
  }
  return departure;
}

absl::optional<Reservation> Reserve(Workspace& workspace, GangPlacer& placer, GangIndex gang,
                                    std::vector<Departure> departures, absl::Time now) {
  const Snapshot& snapshot = workspace.snapshot();
  const GangShape& shape = *snapshot.shapes[snapshot.gangs[gang].shape];
  std::sort(departures.begin(), departures.end(), [](const Departure& a, const Departure& b) {
    return a.end != b.end ? a.end < b.end : a.gang < b.gang;
  });
  const size_t mark = workspace.Mark();
  const auto fits = [&workspace, &placer, &shape] {
    const size_t here = workspace.Mark();
    const bool placed = placer.Place(shape, Plane::kNow).has_value();
    workspace.UndoTo(here);
    return placed;
  };
  size_t at = departures.size();
  Move(workspace, departures, 0, at);
  if (!fits()) {
    workspace.UndoTo(mark);
    return absl::nullopt;
  }
  // Fits after `high` departures, and not (as far as was tried) after `low`.
  size_t low = 0;
  size_t high = at;
  while (low + 1 < high) {
    const size_t middle = low + (high - low) / 2;
    Move(workspace, departures, at, middle);
    at = middle;
    (fits() ? high : low) = middle;
  }
  Move(workspace, departures, at, high);
  Reservation reservation;
  reservation.gang = gang;
  reservation.start = high > 0 ? std::max(now, departures[high - 1].end) : now;
  for (size_t i = 0; i < high; ++i) reservation.assumed |= departures[i].assumed;
  reservation.runs = *placer.Place(shape, Plane::kNow);
  Bound(workspace, mark, reservation);
  return reservation;
}

}  // namespace capstan::scheduler::round
