package concurrency

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func entered(t *testing.T, p *Pool, model string) Slot {
	t.Helper()
	slot, err := p.Enter(context.Background(), model)
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// waits starts a request that has to wait, and returns where its slot comes.
func waits(t *testing.T, p *Pool, model string) <-chan Slot {
	t.Helper()
	before := p.Use()[model].Waiting
	got := make(chan Slot, 1)
	go func() {
		if slot, err := p.Enter(context.Background(), model); err == nil {
			got <- slot
		}
	}()
	for p.Use()[model].Waiting == before {
		time.Sleep(time.Millisecond)
	}
	return got
}

func TestOneModelHasAllSlotsWhileTheOthersAreIdle(t *testing.T) {
	p := New([]string{"a", "b"}, Limits{Concurrent: 4, Queued: 1})
	for range 4 {
		entered(t, p, "a")
	}
	waits(t, p, "a")
	_, err := p.Enter(context.Background(), "a")
	if status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
}

func TestTheNextIsTheOneWithTheLeastOfItsShare(t *testing.T) {
	p := New([]string{"a", "b"}, Limits{Concurrent: 4, Queued: 8})
	var flood []Slot
	for range 4 {
		flood = append(flood, entered(t, p, "a"))
	}
	early, late := waits(t, p, "a"), waits(t, p, "b")
	flood[0].Leave()
	(<-late).Leave()
	<-early
}

func TestReservedSlotsAreAModelsAlone(t *testing.T) {
	p := New([]string{"baseline", "b"}, Limits{Concurrent: 3, Queued: 8, Reserved: map[string]int{"baseline": 2}})
	entered(t, p, "b")
	waits(t, p, "b")
	entered(t, p, "baseline")
	own := entered(t, p, "baseline")
	next := waits(t, p, "baseline")
	own.Leave()
	<-next
	if use := p.Use()["b"]; use.Running != 1 || use.Waiting != 1 {
		t.Errorf("%+v", use)
	}
}

func TestARequestThatGivesUpLeavesNothing(t *testing.T) {
	p := New([]string{"a"}, Limits{Concurrent: 1, Queued: 1})
	slot := entered(t, p, "a")
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := p.Enter(ctx, "a")
		failed <- err
	}()
	for p.Use()["a"].Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-failed; status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	slot.Leave()
	entered(t, p, "a").Leave()
	if use := p.Use()["a"]; use.Running != 0 || use.Waiting != 0 {
		t.Errorf("%+v", use)
	}
	if _, err := p.Enter(ctx, "a"); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

func TestOnlyWhatIsIdleIsSpare(t *testing.T) {
	p := New([]string{"a", "b"}, Limits{Concurrent: 4, Queued: 8, Reserved: map[string]int{"b": 1}})
	first := entered(t, p, "a")
	spare, ok := p.TryEnter("b")
	if !ok {
		t.Fatal("1 of 4 slots is held, and none is spare")
	}
	if _, more := p.TryEnter("a"); more || p.Spare() {
		t.Error("2 of 4 slots are held, and another one is spare")
	}
	spare.Leave()
	if _, ok = p.TryEnter("b"); !ok {
		t.Error("the slot was given back, and is not spare")
	}
	first.Leave()
}

func TestSlotsAreNeverMoreThanThereAre(t *testing.T) {
	models := []string{"a", "b", "c"}
	p := New(models, Limits{Concurrent: 3, Queued: 1000, Reserved: map[string]int{"c": 1}})
	var running sync.WaitGroup
	for i := range 300 {
		running.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%7)*time.Millisecond)
			defer cancel()
			slot, err := p.Enter(ctx, models[i%3])
			if err != nil {
				if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
					t.Error(err)
				}
				return
			}
			held := 0
			for _, use := range p.Use() {
				held += use.Running
			}
			if held > 3 {
				t.Errorf("%d slots are held of 3", held)
			}
			slot.Leave()
			p.reallocate()
		})
	}
	running.Wait()
	for model, use := range p.Use() {
		if use.Running != 0 || use.Waiting != 0 {
			t.Errorf("%s: %+v", model, use)
		}
	}
}

func TestSharesFollowWhatRequestsCost(t *testing.T) {
	p := New([]string{"cheap", "dear"}, Limits{Concurrent: 8, Queued: 8})
	now := time.Now()
	p.now = func() time.Time { return now }
	p.since = now
	for range 10 {
		slot := entered(t, p, "cheap")
		now = now.Add(time.Millisecond)
		slot.Leave()
		slot = entered(t, p, "dear")
		now = now.Add(99 * time.Millisecond)
		slot.Leave()
	}
	p.reallocate()
	if uses := p.Use(); uses["cheap"].Share+uses["dear"].Share != 8 || uses["dear"].Share < 5 {
		t.Errorf("%+v", uses)
	}
}
