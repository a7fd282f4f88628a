package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/trellis-tasks/trellis/internal/board/boardtest"
)

// inBrowser measures a board's first paint, the time until an event is on the page, and both processes while idle.
func (b *bench) inBrowser(s *site, v *boardProcess, name string, over time.Duration) error {
	ctx, cancel, err := boardtest.Browser()
	if errors.Is(err, exec.ErrNotFound) {
		b.logf("left out: %s in a browser: %v", name, err)
		return nil
	} else if err != nil {
		return fmt.Errorf("starting a browser: %w", err)
	}
	defer cancel()
	paint, cards := row{name: name + ": first paint", unit: "ms", p50: 1000}, row{name: name + ": first cards", unit: "ms", p50: 1000}
	for range b.fewSamples {
		tab, end := chromedp.NewContext(ctx)
		err := openBoard(tab, v)
		var painted, shown float64
		if err == nil {
			shown, err = chromedp.Run(tab, chromedp.Evaluate[float64]("performance.now()"))
		}
		if err == nil {
			painted, err = chromedp.Run(tab, chromedp.Evaluate[float64](`new Promise(so => new PerformanceObserver(seen => {
				const first = seen.getEntriesByName('first-contentful-paint')[0];
				if (first) so(first.startTime);
			}).observe({type: 'paint', buffered: true}))`, chromedp.EvalAwaitPromise))
		}
		end()
		if err != nil {
			return err
		}
		paint.samples, cards.samples = append(paint.samples, painted), append(cards.samples, shown)
	}
	b.rows = append(b.rows, paint, cards)
	tab, end := chromedp.NewContext(ctx)
	defer end()
	if err := errors.Join(openBoard(tab, v), waitUntil(tab, "document.getElementById('live').dataset.state === 'on'")); err != nil {
		return err
	}
	return errors.Join(b.eventOnPage(tab, s, name), b.idlePage(tab, v, name, over))
}

// openBoard opens the board, and returns once it shows tasks.
func openBoard(tab context.Context, v *boardProcess) error {
	if err := chromedp.Do(tab, chromedp.EmulateViewport(1440, 900), chromedp.Navigate(v.url+"/#"+v.key)); err != nil {
		return fmt.Errorf("opening the board: %w", err)
	}
	return waitUntil(tab, "document.querySelector('.card')")
}

// waitUntil waits until a JavaScript expression is true on a page.
func waitUntil(tab context.Context, what string) error {
	ctx, cancel := context.WithTimeout(tab, time.Minute)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`new Promise(so => {
		const look = () => `+what+` && (changes.disconnect(), so(true));
		const changes = new MutationObserver(look);
		changes.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
		look();
	})`, chromedp.EvalAwaitPromise))
	if err != nil {
		return fmt.Errorf("waiting on the board for %s: %w", what, err)
	}
	return nil
}

// eventOnPage measures the time from writing a task to the page that shows it.
func (b *bench) eventOnPage(tab context.Context, s *site, name string) error {
	r := row{name: name + ": from a task.json to the page", unit: "ms", p50: 300, p99: 300}
	for i := range b.manySamples / 2 {
		title := fmt.Sprintf("Written as number %d.", i)
		began := time.Now()
		if err := s.write(".trellis/tasks/01-01-other-1/task.json", fmt.Sprintf(`{"title": %q, "status": "failed", "priority": "P0"}`, title)); err != nil {
			return err
		}
		if err := waitUntil(tab, fmt.Sprintf("document.getElementById('list-needs').textContent.includes(%q)", title)); err != nil {
			return err
		}
		r.samples = append(r.samples, msSince(began))
	}
	b.rows = append(b.rows, r)
	return nil
}

// idlePage measures what the board and its page use while idle. It is an error if the page makes requests.
func (b *bench) idlePage(tab context.Context, v *boardProcess, name string, over time.Duration) error {
	pids := []int{v.cmd.Process.Pid}
	if _, err := cpu(pids); err != nil {
		b.logf("left out: %s at rest, which is looked at through /proc: %v", name, err)
		return nil
	}
	enable := chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
		return err
	})
	if err := chromedp.Do(tab, enable); err != nil {
		return err
	}
	if _, _, err := pageUsage(tab); err != nil { // the first call takes more time than later ones
		return err
	}
	asked, worked, err := pageUsage(tab)
	if err != nil {
		return err
	}
	before, err := cpu(pids)
	if err != nil {
		return err
	}
	time.Sleep(over)
	after, err := cpu(pids)
	if err != nil {
		return err
	}
	askedThen, workedThen, err := pageUsage(tab)
	if err == nil && askedThen != asked {
		err = fmt.Errorf("the page made %v requests while nothing happened", askedThen-asked)
	}
	b.rows = append(b.rows, row{name: fmt.Sprintf("%s: CPU of the server at rest over %v, a page listens", name, over), unit: "%", p50: 0.1, samples: []float64{100 * (after - before).Seconds() / over.Seconds()}},
		row{name: "that of the page, which asks for nothing", unit: "%", p50: 0.5, samples: []float64{100 * (workedThen - worked) / over.Seconds()}})
	return err
}

// pageUsage returns the number of requests that a page has made, and the seconds that it has worked.
func pageUsage(tab context.Context) (asked, worked float64, err error) {
	if asked, err = chromedp.Run(tab, chromedp.Evaluate[float64]("performance.getEntriesByType('resource').length")); err != nil {
		return 0, 0, err
	}
	metrics, err := chromedp.Run(tab, func(ctx context.Context, _ *chromedp.Target) (performance.GetMetricsResult, error) {
		return chromedp.Call(ctx, performance.GetMetrics, cdp.Empty{})
	})
	if err != nil {
		return 0, 0, err
	}
	for _, m := range metrics.Metrics {
		if m.Name == "TaskDuration" {
			worked = m.Value
		}
	}
	return asked, worked, nil
}
