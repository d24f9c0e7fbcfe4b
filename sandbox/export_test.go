package sandbox

import "context"

func Clean(text string, hide ...string) []string { return clean(text, hide) }

func Telling(lines []string) string { return telling(lines) }

func ChangesProgram(name string) bool { return changesProgram(name) }

func Measure(ctx context.Context, path string, most int64) (int64, error) {
	return measure(ctx, path, most)
}

// Reserve changes how many bytes stay free on the engine's disk.
func (d *Docker) Reserve(bytes int64) { d.reserve.Store(bytes) }

// Abandon lets go of everything and stops nothing, as the end of a bobbin that was killed.
func (d *Docker) Abandon() {
	d.end()
	d.work.Wait()
	for _, b := range d.all() {
		b.turn <- struct{}{}
		b.leave()
		b.unlock()
	}
	_ = d.engine.Close()
	d.release()
}
